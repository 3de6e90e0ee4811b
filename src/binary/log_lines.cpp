// Log lines that tell of code built for the wrong target.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "tetrad/arch_list.hpp"

namespace tetrad {
namespace {

constexpr std::size_t kLineBytes = 65536;
constexpr std::size_t kTextBytes = 200;
constexpr std::size_t kMostFindings = 256;

// What a rule says beside its meaning; most say what to build for the target that the line names.
enum class Advice : std::uint8_t {
  suffix,
  toolkit,
  isa,
  driver,
  image,
  guard,
  nvcc_used,
  torch_list,
  sm10x,
  cublas,
  dsl,
  none
};

struct Rule {
  std::string_view id;
  std::array<std::string_view, 3> parts;  // all of them stand in the line, in any order; upper and lower case are equal
  std::string_view meaning;
  Advice advice;
};

// Texts: ptxas 11.8 to 13.5 as run by scripts/oracles/ptxas_targets.py; CUDA run-time error strings; CUTLASS 4
// (gemm/kernel/sm90_*.hpp, CuTe arch headers); vLLM csrc/cutlass_extensions/common.hpp; FlashInfer 0.7.4
// compilation_context.py; torch 2.15 cpp_extension.py; SGLang issue 18071; vLLM issue 49011; PyTorch issue 198126
// (cuBLAS); CUTLASS issue 3227 (DSL 4.5.0).
constexpr std::array<Rule, 23> kRules = {{
    {"feature_not_on_target",
     {"not supported on .target"},
     "the code was compiled for a target without this instruction",
     Advice::suffix},
    {"isa_too_old",
     {"requires PTX ISA .version"},
     "the PTX says an older language version than the instruction needs",
     Advice::isa},
    {"isa_too_old",
     {"PTX .version", "does not support .target"},
     "the PTX says an older language version than its target",
     Advice::toolkit},
    {"ptxas_too_old",
     {"Unsupported .version"},
     "this ptxas is older than the compiler that wrote the PTX",
     Advice::isa},
    {"toolkit_too_old", {"is not defined for option"}, "the ptxas that ran does not know this target", Advice::toolkit},
    {"toolkit_too_old",
     {"Unsupported gpu architecture"},
     "the nvcc that ran does not know this target",
     Advice::toolkit},
    {"no_kernel_image",
     {"no kernel image is available"},
     "no machine code and no PTX in the build loads on this device",
     Advice::image},
    {"no_kernel_image",
     {"CUDA_ERROR_NO_BINARY_FOR_GPU"},
     "no machine code and no PTX in the build loads on this device",
     Advice::image},
    {"no_kernel_image",
     {"device kernel image is invalid"},
     "the image is for another device, or damaged",
     Advice::image},
    {"no_kernel_image",
     {"is not compatible with the current PyTorch"},
     "this PyTorch holds no code for the device",
     Advice::image},
    {"driver_too_old",
     {"compiled with an unsupported toolchain"},
     "PTX newer than the driver can compile",
     Advice::driver},
    {"compiled_without_suffix",
     {"Arch conditional MMA instruction used without"},
     "CUTLASS compiled the kernel's body away, because the target has no suffix 'a' or 'f'",
     Advice::suffix},
    {"compiled_without_suffix",
     {"without CUTE_ARCH_"},
     "CuTe compiled the instruction away, because the target has no suffix 'a' or 'f'",
     Advice::suffix},
    {"exact_guard",
     {"This kernel only supports sm"},
     "the kernel is guarded for other capabilities and stops on this one; an exact guard (== 1200) refuses 12.1, a "
     "family guard (1200 to 1299) takes it",
     Advice::guard},
    {"no_arch_left",
     {"No supported CUDA architectures found for major versions"},
     "FlashInfer dropped the device's target: the nvcc it found is too old for it",
     Advice::nvcc_used},
    {"no_arch_left", {"requires CUDA >= 12."}, "FlashInfer found an nvcc too old for the device", Advice::nvcc_used},
    {"unknown_torch_arch",
     {"Unknown CUDA arch", "GPU not supported"},
     "TORCH_CUDA_ARCH_LIST holds a name torch refuses",
     Advice::torch_list},
    {"no_fp4_kernel",
     {"No compiled nvfp4"},
     "the build skipped its FP4 sources: no target of its list takes FP4",
     Advice::image},
    {"no_fp4_kernel", {"No compiled cutlass_scaled_mm"}, "the build skipped the kernels of this device", Advice::image},
    {"family_of_sm10x",
     {"requires sm100f"},
     "this path exists for 10.0 and 10.3 only; NVFP4 weights are another question",
     Advice::sm10x},
    {"block_scaled_layout",
     {"CUBLAS_STATUS_NOT_SUPPORTED"},
     "cuBLAS before 13.6 multiplies block-scaled operands on 12.x in the TN layout alone",
     Advice::cublas},
    {"release_with_bad_code",
     {"nvidia-cutlass-dsl", "4.5.0"},
     "this release lowers mma.block_scale wrongly for 12.x: wrong numbers, no error",
     Advice::dsl},
    {"gate_of_engine",
     {"does not support NVFP4"},
     "the engine's own list of capabilities refuses the device; it says nothing about the hardware",
     Advice::none},
}};

bool digit(char c) { return c >= '0' && c <= '9'; }

// "sm_120a", "compute_90" or, where the text says "SM 12.1" or "sm120", that in the first form; "" if none.
std::string target_in(std::string_view line) {
  const std::string low = core::lower(line);
  for (const std::string_view start : {"sm_", "compute_", "sm ", "sm", "arch ("}) {
    for (std::size_t at = low.find(start); at != std::string::npos; at = low.find(start, at + 1)) {
      std::string number;
      std::size_t end = at + start.size();
      while (end < low.size() && (digit(low[end]) || low[end] == '.') && number.size() < 4) {
        if (low[end] != '.') number += low[end];
        ++end;
      }
      if (number.size() < 2) continue;
      if (end < low.size() && (low[end] == 'a' || low[end] == 'f')) number += low[end];
      if (parse_target(number)) return (start == "compute_" ? "compute_" : "sm_") + number;
    }
  }
  return "";
}

std::string printable(std::string_view line) {
  std::string out;
  for (const char c : line.substr(0, kTextBytes)) {
    if (c == ' ' && out.ends_with(' ')) continue;
    out += c >= 0x20 && c < 0x7F ? c : '?';
  }
  return out;
}

std::string list_of(const Suggestion& s) {
  const std::string family = s.family.empty() ? "" : fmt::format(", or {} for its family", s.family);
  return fmt::format("TORCH_CUDA_ARCH_LIST={}, CMAKE_CUDA_ARCHITECTURES={} or {}{} (CUDA {} or later)", s.torch,
                     s.cmake, s.nvcc, family, s.cuda);
}

// The instruction that a message of ptxas speaks of.
std::optional<TensorOp> op_in(std::string_view line) {
  const auto has = [&](std::string_view part) { return line.find(part) != std::string_view::npos; };
  if (has("tcgen05") || has(".scale_vec") || has("tensormem")) return TensorOp::tcgen05_nvfp4;
  if (has("wgmma")) return TensorOp::wgmma;
  if (has("block scale") || has("kind::mxf4") || has("kind::mxf8")) return TensorOp::mma_nvfp4;
  if (has("kind::f8f6f4")) return TensorOp::mma_f8f6f4;
  if (has("e2m1") || has("e3m2") || has("e2m3") || has("ue8m0")) return TensorOp::cvt_e2m1;
  return std::nullopt;
}

std::string suffix_advice(std::string_view line, const std::optional<Target>& target) {
  const Toolkit& newest = toolkits().back();
  const std::optional<TensorOp> op = op_in(line);
  if (!target) return "a target with suffix: 9.0a, 10.0a, 12.0a or 12.1a, as the device is";
  const Suggestion own = suggest(target->cc);
  const Target exact{Target::Kind::arch, target->cc};
  if (!op || newest.takes(*op, exact)) {
    if (target->kind == Target::Kind::family || target->kind == Target::Kind::ptx_family) {
      return "the chip's own target in place of the family's: " + list_of(own);
    }
    return (op ? "the suffix is missing, not the hardware: " : "") + list_of(own);
  }
  std::string homes;
  for (const std::string& name : newest.targets) {
    if (!name.ends_with('a') || !newest.takes(*op, *parse_target(name))) continue;
    homes += (homes.empty() ? "" : ", ") + name;
  }
  return fmt::format("nothing: {}.{} has no {}, with or without suffix; it exists on {}", target->cc.major,
                     target->cc.minor, name(*op), homes);
}

std::string isa_advice(std::string_view line) {
  const std::size_t word = line.find(".version ");
  std::string isa;
  for (std::size_t at = word == std::string_view::npos ? line.size() : word + 9;
       at < line.size() && (digit(line[at]) || line[at] == '.') && isa.size() < 6; ++at) {
    isa += line[at];
  }
  if (isa.ends_with('.')) isa.pop_back();
  const auto number = [](std::string_view text) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    long long major = 0;
    long long minor = 0;
    core::parse_int(text.substr(0, dot), major);
    if (dot < text.size()) core::parse_int(text.substr(dot + 1), minor);
    return major * 1000 + minor;
  };
  for (const Toolkit& toolkit : toolkits()) {
    if (!isa.empty() && number(toolkit.ptx_isa) >= number(isa)) {
      return fmt::format("use nvcc and ptxas of CUDA {} or later (PTX {})", toolkit.release, toolkit.ptx_isa);
    }
  }
  return fmt::format("use a CUDA release newer than {}", toolkits().back().release);
}

std::string advice_of(const Rule& rule, std::string_view line, const std::string& named) {
  std::optional<Target> target;
  if (const Result<Target> parsed = parse_target(named); parsed && !named.empty()) target = *parsed;
  switch (rule.advice) {
    case Advice::suffix:
      return suffix_advice(line, target);
    case Advice::toolkit: {
      const std::string first = target ? first_release(*target) : "";
      const std::string need = first.empty() ? "no release up to CUDA " + toolkits().back().release + " has this target"
                                             : fmt::format("use CUDA {} or later", first);
      return need + "; Triton carries its own ptxas: point TRITON_PTXAS_PATH at the newer one";
    }
    case Advice::isa:
      return isa_advice(line);
    case Advice::driver:
      return "update the driver, or build machine code for the device instead of PTX";
    case Advice::image:
      return target ? list_of(suggest(target->cc)) : "the device's own target: tetrad targets \"12.0a\" --device NAME";
    case Advice::guard:
      return "a release whose kernel has the family guard, or another backend; an image for 120f does not lift the "
             "guard";
    case Advice::nvcc_used:
      return "set CUDA_HOME to a toolkit of CUDA 12.9 or later (nvcc --version tells), or name the target in "
             "FLASHINFER_CUDA_ARCH_LIST, like 12.0f";
    case Advice::torch_list:
      return "a name that torch lists: the 'a' form in place of 'f', numbers like 12.0a";
    case Advice::sm10x:
      return "nothing on 12.x: choose another --kv-cache-dtype";
    case Advice::cublas:
      return "nothing: pass both operands with k contiguous (TN), or use cuBLAS 13.6 (CUDA 13.3 Update 1) or later";
    case Advice::dsl:
      return "nothing: install nvidia-cutlass-dsl 4.5.1 or later";
    case Advice::none:
      return "a release of the engine that lists the device; tetrad targets LIST --device NAME tells what a build "
             "holds";
  }
  return "";
}

}  // namespace

void LogReader::add_line(std::string_view line) {
  ++lines_;
  line = line.substr(0, kLineBytes);
  const std::string low = core::lower(line);
  for (const Rule& rule : kRules) {
    const bool all = std::all_of(rule.parts.begin(), rule.parts.end(), [&](std::string_view part) {
      return low.find(core::lower(part)) != std::string::npos;
    });
    if (!all) continue;
    const std::string target = target_in(line);
    std::string build = advice_of(rule, line, target);
    const auto same = std::find_if(findings_.begin(), findings_.end(), [&](const LogFinding& finding) {
      return finding.rule == rule.id && finding.target == target && finding.build == build;
    });
    if (same != findings_.end()) {
      ++same->count;
    } else if (findings_.size() < kMostFindings) {
      findings_.push_back(
          {std::string(rule.id), printable(line), lines_, 1, target, std::string(rule.meaning), std::move(build)});
    }
    return;
  }
}

}  // namespace tetrad
