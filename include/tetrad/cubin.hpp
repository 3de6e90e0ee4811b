// What one cubin (a GPU's machine code in ELF) was built for and what its kernels do. No tool of NVIDIA is needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"
#include "tetrad/target.hpp"

namespace tetrad {

// Classes of machine instructions that decide what a kernel is. The name in text is the mnemonic where there is one.
enum class SassClass : std::uint8_t {
  omma,         // FP4 tensor cores of SM12x, mma.sync kind::mxf4, mxf4nvf4
  utcomma,      // FP4 of SM10x, SM11x, tcgen05
  qmma,         // FP8 (also FP6 and FP4 operands at FP8 rate), mma.sync
  qgmma,        // FP8 of SM90, wgmma
  utcqmma,      // FP8 (also FP6 and FP4 operands at FP8 rate), tcgen05
  hmma,         // FP16, BF16, TF32, mma.sync
  hgmma,        // the same, wgmma
  utchmma,      // the same, tcgen05
  imma,         // integers, mma.sync
  igmma,        // the same, wgmma
  utcimma,      // the same, tcgen05
  bmma,         // single bits
  bgmma,        // the same, wgmma
  dmma,         // FP64
  fp4_pack,     // F2FP to E2M1
  fp4_unpack,   // F2FP from E2M1
  fp6_convert,  // F2FP to or from E2M3, E3M2
  fp8_convert,  // F2FP to or from E4M3, E5M2
  nibble_mask,  // LOP3 with a mask that cuts 4-bit codes out of a word
  ldl,          // load from local memory: spills and arrays on the stack
  stl,
  ldg,
  stg,
  lds,
  sts,
  ldsm,     // ldmatrix
  ldgsts,   // cp.async
  utmaldg,  // TMA load
  utmastg,  // TMA store
  ublkcp,   // bulk copy without tensor map
  ldtm,     // load from tensor memory
  sttm,
};
inline constexpr std::size_t kSassClasses = static_cast<std::size_t>(SassClass::sttm) + 1;

// "OMMA", "F2FP to E2M1", "LDL", ... Unique.
std::string_view name(SassClass what);

struct SassCounts {
  std::array<std::uint64_t, kSassClasses> of{};
  std::uint64_t instructions = 0;  // all, padding (NOP) included
  std::uint64_t operator[](SassClass what) const { return of[static_cast<std::size_t>(what)]; }
  SassCounts& operator+=(const SassCounts& other);
  friend bool operator==(const SassCounts&, const SassCounts&) = default;
};

// The best arithmetic of a kernel for 4-bit weights, from the best to the least. `dequantised` is decided by finding,
// in the same function, F2FP from E2M1, LOP3 with a mask that cuts several 4-bit codes out of one word, or the
// arithmetic of cuda_fp4.h; a kernel that unpacks by table look-up (PRMT, shared memory) shows none of these and counts
// as `half`.
enum class KernelClass : std::uint8_t {
  native_fp4,   // FP4 tensor instructions
  fp8,          // FP8 tensor instructions; E2M1 operands run at FP8 rate there
  dequantised,  // 16-bit tensor instructions after 4-bit codes were unpacked
  half,         // 16-bit or TF32 tensor instructions, no 4-bit codes
  integer,      // integer or single-bit tensor instructions
  fp64,
  none,  // no tensor instruction
};
std::string_view name(KernelClass what);

// One function of a cubin. A kernel that calls functions with an own section does not count their instructions.
struct KernelReport {
  std::string name;   // as in the file, mangled
  bool entry = true;  // false: a device function with a section of its own
  std::uint64_t code_bytes = 0;
  std::int32_t registers = -1;     // per thread; -1: the file does not say
  std::int64_t static_shared = 0;  // bytes; dynamic shared memory is not in the file
  std::int64_t frame = -1;         // bytes of stack of the function itself; -1: the file does not say
  std::int64_t stack = -1;         // bytes of local memory per thread with its callees; -1: the file does not say
  std::int32_t max_threads = -1;   // __launch_bounds__; -1: the file does not say
  SassCounts counts;
  KernelClass verdict = KernelClass::none;
  bool software_fp4_pack = false;    // E2M1 made with ordinary arithmetic (plain sm_120 and the like)
  bool software_fp4_unpack = false;  // E2M1 read with the header's own arithmetic
  std::string why;                   // one lower-case line: which instructions led to the verdict
  // Frame and local loads or stores: registers that did not fit, or arrays that are indexed.
  bool spills() const { return frame > 0 && counts[SassClass::stl] > 0; }
};

struct CubinReport {
  Target target;
  std::string target_from;  // "ptxas arguments", "ELF flags", "the accelerator attribute", ...
  bool target_sure = true;  // false: a plain target that may be a family one; nothing in the file tells
  std::uint32_t elf_flags = 0;
  std::string tool;          // "ptxas", "nvlink"; empty: the file does not say
  std::string toolkit;       // "13.0.88", or "12.4" of old files; empty: the file does not say
  std::string command;       // the tool's arguments, "-arch sm_120a -m 64"; empty: the file does not say
  bool relocatable = false;  // -rdc: code that a linker has not seen yet
  bool decoded = true;       // false: instructions older than sm_70, which are not counted
  std::vector<KernelReport> kernels;
  SassCounts total;
  std::uint64_t code_bytes = 0;
};

// Reads an ELF image of machine EM_CUDA, whole and in memory. Time is linear in its size; no byte outside `image` is
// read, and the report's memory is at most a small multiple of its symbol names.
// Errors (input): TE0821 not a cubin, TE0822 a target that does not exist, TE0823 code sections that overlap; a damaged
// ELF file: TE0801 to TE0805.
Result<CubinReport> read_cubin(std::span<const std::byte> image);

}  // namespace tetrad
