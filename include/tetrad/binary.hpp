// What compiled code holds for GPUs: images per target, what loads on a device, what the kernels do. No GPU, no tool of
// NVIDIA is needed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/cubin.hpp"
#include "tetrad/error.hpp"
#include "tetrad/target.hpp"

namespace tetrad {

enum class ImageKind : std::uint8_t {
  cubin,   // machine code
  ptx,     // text that the driver compiles
  lto_ir,  // input of the linker; nothing that loads
  other,   // a kind that is not known
};
std::string_view name(ImageKind kind);

enum class ImagePacking : std::uint8_t { none, lz4, zstd };
std::string_view name(ImagePacking packing);

inline constexpr std::size_t kKernelClasses = static_cast<std::size_t>(KernelClass::none) + 1;
using VerdictCounts = std::array<std::uint64_t, kKernelClasses>;  // kernels, by KernelClass

// One piece of code.
struct CodeImage {
  ImageKind kind = ImageKind::other;
  std::optional<Target> target;  // a cubin's by its own notes, PTX's by its .target; empty: nobody knows
  bool target_sure = true;       // false: a plain target that may be a family one
  std::uint64_t offset = 0;      // in the file, or in the wheel's or archive's member
  std::string section;           // ".nv_fatbin"; empty where the file was read from a wheel or archive
  std::uint32_t module = 0;      // images of one module are alternatives: the driver takes one of them
  bool linker_input = false;     // relocatable code left over in a linked file: nothing loads it
  ImagePacking packing = ImagePacking::none;
  std::uint64_t stored_bytes = 0;  // in the file
  std::uint64_t bytes = 0;         // unpacked
  std::string source;              // source file, where the image names it
  std::string toolkit;             // "13.0.88" of a cubin, PTX version of PTX ("9.0"); empty: not said
  std::uint64_t kernels = 0;
  VerdictCounts verdicts{};
  SassCounts counts;
  bool fp4_text = false;  // PTX with FP4 tensor instructions (kind::mxf4, kind::mxf4nvf4)
  std::string problem;    // why the image could not be read; empty if it could
};

// Modules of a file that offer the same targets.
struct ModuleKind {
  std::vector<Target> cubins;  // sorted, unique
  std::vector<Target> ptx;     // sorted, unique
  bool fp4_text = false;       // the PTX has FP4 tensor instructions
  std::uint64_t modules = 0;
  std::uint64_t kernels = 0;  // in the image with the most
};

// Kernels of one template (or plain function), target and kind of module.
struct KernelGroup {
  std::string name;  // "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal>"
  Target target;
  std::size_t kind = 0;  // index into BinaryFile::kinds
  std::uint64_t kernels = 0;
  VerdictCounts verdicts{};
  SassCounts counts;               // summed
  std::int32_t registers = -1;     // the most per thread
  std::int64_t static_shared = 0;  // bytes, the most
  std::int64_t stack = -1;         // bytes, the most
  std::uint64_t spilling = 0;      // kernels
  std::uint64_t software_fp4 = 0;  // kernels that convert to or from FP4 with ordinary arithmetic
  std::string why;                 // of the best kernel
};

// A kernel that BinaryOptions::kernels asked for.
struct NamedKernel {
  std::string name;       // demangled where that stays short, else the template's name
  std::size_t image = 0;  // index into BinaryFile::images
  KernelReport report;    // its name is the mangled one
};

// One file with code for GPUs, or one that could not be read.
struct BinaryFile {
  std::string path;  // as given; below a folder "folder/lib.so", inside a wheel or archive "a.whl/pkg/lib.so"
  std::uint64_t bytes = 0;
  std::vector<CodeImage> images;  // by place in the file
  std::vector<ModuleKind> kinds;
  std::vector<KernelGroup> groups;  // the most kernels first
  std::vector<NamedKernel> kernels;
  std::vector<Error> problems;
};

struct BinaryReport {
  std::vector<BinaryFile> files;  // sorted by path; files without any of this are left out
  std::uint64_t files_seen = 0;
  std::uint64_t bytes_seen = 0;  // read or unpacked
  std::vector<Error> problems;   // of folders and archives as a whole
};

struct BinaryOptions {
  std::string kernels;  // glob over mangled and readable names; matching kernels are kept one by one
  int threads = 0;      // 0 = all of this process
  // Called now and then from the calling thread: bytes done, bytes in all (0: not known), the file.
  std::function<void(std::uint64_t, std::uint64_t, std::string_view)> progress;
  // Called for each cubin that was read, by several threads at once: where it lies, its bytes, which live during the
  // call, and what was read from them.
  std::function<void(std::string_view, std::span<const std::byte>, const CubinReport&)> cubin;
};

// Reads one library, object, archive, cubin, fat binary, PTX file, wheel, or everything below a folder (links below it
// are not followed). Memory stays below 1 GB and time linear in what is read. What cannot be read inside a wheel, an
// archive or a folder is a problem of the report, and reading goes on.
// Errors (input): TE0810 not there or not readable; TE0811 no file of a kind that holds code; TE0812 a damaged archive;
// TE0813 a damaged zip; TE0814 a name inside a zip that leads out of it; TE0815 a zip that unpacks to too much.
Result<BinaryReport> read_binary(const std::string& path, const BinaryOptions& options = {});

// What one file gives a device.
struct DeviceAnswer {
  struct Loaded {
    Target target;
    bool jit = false;
    std::uint64_t modules = 0;
  };
  struct Missing {
    std::string why;   // one lower-case line
    std::string need;  // targets that would load, "121a, 120f or compute_120"
    std::uint64_t modules = 0;
  };
  std::vector<Loaded> loaded;
  std::vector<Missing> missing;
  std::uint64_t native_modules = 0;   // machine code loads
  std::uint64_t jit_modules = 0;      // the driver compiles PTX
  std::uint64_t missing_modules = 0;  // nothing loads
  VerdictCounts verdicts{};           // kernels of the machine code that loads
  std::uint64_t software_fp4 = 0;     // of these, kernels with FP4 conversions in software
  std::uint64_t fp4_jit_modules = 0;  // modules whose PTX, once compiled, has FP4 tensor instructions
  std::vector<std::size_t> groups;    // that load, indices into BinaryFile::groups
  bool native_fp4() const { return verdicts[static_cast<std::size_t>(KernelClass::native_fp4)] > 0; }
};

// By loads_on; of the machine code that loads the driver takes the nearest target, then PTX.
DeviceAnswer answer_for(const BinaryFile& file, ComputeCapability device);

}  // namespace tetrad
