// Which tool made a cubin, and for which target (internal).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binary/elf.hpp"
#include "tetrad/target.hpp"

namespace tetrad::binary {

struct CubinIdentity {
  Target target;
  std::string target_from;
  bool target_sure = true;
  std::string tool, toolkit, command;
};

// The target named by a tool's arguments: "-arch sm_120a", "--gpu-name=sm_90a", "-arch=compute_120f". Nothing where
// they name none, or several.
std::optional<Target> target_of_command(std::string_view command);

// Reads ELF flags, .note.nv.tkinfo and .nv.compat. Three formats exist, seen in the output of ptxas 12.0 to 13.5:
//   ABI 7: flags bits 0 to 7 the number, bit 11 `a`; no note (sm_90 and older, before CUDA 13)
//   ABI 8 of CUDA 12.8 and 12.9 (sm_100 and newer): flags bits 8 to 23 the number, bit 3 `a`; a note with the arguments
//   ABI 8 of CUDA 13: no bit for `a`; .nv.compat attribute 9 is 1 for it; a note with the arguments
// `f` is told by the arguments alone, and by .nv.compat attribute 2 (class of instructions) where family ones are used.
// Error (input): TE0822 a number that is no target.
Result<CubinIdentity> identify(const Elf& elf);

}  // namespace tetrad::binary
