// What a list of architectures builds with a CUDA release, which tensor instructions that code may hold, where it
// loads; and log lines that tell of code built for the wrong target. The facts are ptxas' own answers
// (data/targets/ptxas.txt).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/device.hpp"
#include "tetrad/error.hpp"
#include "tetrad/target.hpp"

namespace tetrad {

// Instructions that tell whether code can use the tensor cores for NVFP4, or what it does instead.
enum class TensorOp : std::uint8_t {
  mma_bf16,       // mma.sync m16n8k16 bf16
  mma_fp8,        // mma.sync m16n8k32 e4m3
  mma_f8f6f4,     // mma.sync kind::f8f6f4 with e2m1 operands, at FP8's rate
  mma_nvfp4,      // mma.sync kind::mxf4nvf4 block_scale with ue4m3 scales
  cvt_e2m1,       // cvt to e2m1x2
  tcgen05_nvfp4,  // tcgen05.mma kind::mxf4nvf4 block_scale
  wgmma,          // wgmma.mma_async bf16
};
std::string_view name(TensorOp op);

// One CUDA release as its ptxas answers.
struct Toolkit {
  std::string release;  // "12.8"
  std::string ptxas;    // "12.8.93", the version that was asked
  std::string ptx_isa;  // "8.7", the newest it reads
  std::vector<std::string> targets;
  std::vector<std::pair<TensorOp, std::vector<std::string>>> accepts;

  bool knows(const Target& target) const;
  // Whether code compiled from this target's PTX may hold the instruction: PTX for plain 120 may not, even where it is
  // assembled for sm_120a.
  bool takes(TensorOp op, const Target& target) const;
};
// Oldest first.
const std::vector<Toolkit>& toolkits();
// "12.8", "12.8.1" or "V12.8.93"; "13" is the newest 13.x. Error (input): none of that release, with those there are.
Result<Toolkit> find_toolkit(std::string_view version);
// The first release that knows the target; empty if none does.
std::string first_release(const Target& target);

// torch: TORCH_CUDA_ARCH_LIST; cmake: CMAKE_CUDA_ARCHITECTURES; nvcc: -gencode, -arch and -code.
enum class ArchSyntax : std::uint8_t { torch, cmake, nvcc };
std::string_view name(ArchSyntax syntax);
// Points and +PTX and generation names are torch's, compute_, sm_ and dashed options nvcc's, anything else CMake's.
ArchSyntax guess_syntax(std::string_view text);

// One image of the build.
struct BuiltTarget {
  Target target;       // machine code, or PTX
  Target source;       // the PTX it is compiled from; equals target for PTX
  std::string from;    // the words of the list
  bool known = false;  // this release builds it
  std::string note;    // why not known, else empty
  std::vector<TensorOp> ops;
};

struct ArchList {
  ArchSyntax syntax = ArchSyntax::torch;
  Toolkit toolkit;
  std::vector<BuiltTarget> targets;  // in the list's order, without repetition
  std::vector<std::string> notes;    // rules of the build system that matter for this list
};
// `native` needs `here`, the capability of the device that the build would run on. Errors (usage): an empty list, more
// than 256 items or 8 KiB, an item that the syntax does not know (with near names), an impossible pair of -gencode.
Result<ArchList> read_arch_list(std::string_view text, ArchSyntax syntax, const Toolkit& toolkit,
                                std::optional<ComputeCapability> here = std::nullopt);

enum class Fp4Answer : std::uint8_t {
  native,     // code with FP4 tensor-core instructions loads
  no_suffix,  // code loads, without FP4 instructions though the device has them
  not_there,  // the device has no FP4 tensor cores
  nothing_loads
};
std::string_view name(Fp4Answer answer);

// What one device gets from a build.
struct DeviceAnswer {
  bool loads = false;
  bool jit = false;
  Fp4Answer fp4 = Fp4Answer::nothing_loads;
  std::optional<Target> target;  // the image that serves best: FP4 first, machine code before PTX, then the nearest
  std::string why;
};
// Precondition: device is a GPU's capability.
DeviceAnswer answer_on(const ArchList& list, ComputeCapability device);

// What to write so that a device gets everything it can: its own `a` target where it exists, else the plain one.
struct Suggestion {
  std::string torch;   // "12.1a"
  std::string cmake;   // "121a-real"
  std::string nvcc;    // "-gencode arch=compute_121a,code=sm_121a"
  std::string family;  // "120f": one cubin for the whole family; empty where none serves the device's FP4
  std::string cuda;    // the first release that builds it
};
Suggestion suggest(ComputeCapability device);

// One kind of log line, seen `count` times.
struct LogFinding {
  std::string rule;       // "feature_not_on_target", ... (docs/arch-lists.md)
  std::string text;       // the first such line, at most 200 bytes as printable ASCII, runs of blanks as one
  std::int64_t line = 0;  // from 1
  std::int64_t count = 0;
  std::string target;  // "sm_120", as the line names it; empty if it names none
  std::string meaning;
  std::string build;  // what to build or set instead
};
// Collects findings line by line; a finding is one rule and target. At most 256 are kept; `lines` counts all.
class LogReader {
 public:
  void add_line(std::string_view line);
  const std::vector<LogFinding>& findings() const { return findings_; }
  std::int64_t lines() const { return lines_; }

 private:
  std::vector<LogFinding> findings_;
  std::int64_t lines_ = 0;
};

}  // namespace tetrad
