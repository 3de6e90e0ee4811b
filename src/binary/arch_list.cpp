#include "binary/arch_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "device/quote.hpp"

namespace tetrad {
namespace {

constexpr std::size_t kMostBytes = 8192;
constexpr std::size_t kMostItems = 256;

// The instruction with which a device multiplies NVFP4; none where it has no such tensor cores.
std::optional<TensorOp> fp4_op(ComputeCapability device) {
  for (const Feature feature : features_of(device)) {
    if (feature == Feature::mma_nvfp4) return TensorOp::mma_nvfp4;
    if (feature == Feature::tcgen05) return TensorOp::tcgen05_nvfp4;
  }
  return std::nullopt;
}

bool holds(const BuiltTarget& built, TensorOp op) {
  return std::find(built.ops.begin(), built.ops.end(), op) != built.ops.end();
}

BuiltTarget built_of(const binary::ImageRequest& image, const Toolkit& toolkit) {
  BuiltTarget built{image.target, image.source, image.from, false, {}, {}};
  built.known = toolkit.knows(image.target) && toolkit.knows(image.source);
  if (!built.known) {
    const std::string first = first_release(image.target);
    const Toolkit& newest = toolkits().back();
    built.note = first.empty()                 ? "no CUDA release up to " + newest.release + " has it"
                 : toolkit.knows(image.target) ? fmt::format("CUDA {} does not read its PTX", toolkit.release)
                 : newest.knows(image.target)  ? fmt::format("needs CUDA {} or later", first)
                                               : fmt::format("CUDA {} no longer has it", toolkit.release);
    return built;
  }
  for (const auto& [op, names] : toolkit.accepts) {
    if (toolkit.takes(op, image.source)) built.ops.push_back(op);
  }
  return built;
}

}  // namespace

std::string_view name(ArchSyntax syntax) {
  constexpr std::array<std::string_view, 3> kNames = {"torch", "cmake", "nvcc"};
  return kNames[static_cast<std::size_t>(syntax)];
}

std::string_view name(Fp4Answer answer) {
  constexpr std::array<std::string_view, 4> kNames = {"native", "no_suffix", "no_hardware", "nothing_loads"};
  return kNames[static_cast<std::size_t>(answer)];
}

ArchSyntax guess_syntax(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has("compute_") || has("sm_") || has("-gencode") || has("-arch") || has("arch=")) return ArchSyntax::nvcc;
  if (has("-real") || has("-virtual")) return ArchSyntax::cmake;
  if (has(".") || has("+PTX")) return ArchSyntax::torch;
  for (const std::string& word : binary::split(text, "; ,\t\n")) {
    const bool letter = (word[0] >= 'a' && word[0] <= 'z') || (word[0] >= 'A' && word[0] <= 'Z');
    if (letter && word != "all" && word != "all-major" && word != "native") return ArchSyntax::torch;
  }
  return ArchSyntax::cmake;
}

Result<ArchList> read_arch_list(std::string_view text, ArchSyntax syntax, const Toolkit& toolkit,
                                std::optional<ComputeCapability> here) {
  const std::size_t items = binary::split(text, "; ,\t\n").size();
  if (items == 0 || items > kMostItems || text.size() > kMostBytes) {
    return Error{ErrorKind::usage,
                 "TE0881",
                 items == 0 ? "the list names no architecture" : "the list is too long",
                 "LIST",
                 fmt::format("1 to {} names in {} bytes", kMostItems, kMostBytes),
                 fmt::format("{} in {} bytes", items, text.size()),
                 {},
                 "tetrad targets \"9.0a 12.0a\""};
  }
  Result<binary::ListReading> reading = syntax == ArchSyntax::torch   ? binary::read_torch(text)
                                        : syntax == ArchSyntax::cmake ? binary::read_cmake(text, toolkit, here)
                                                                      : binary::read_nvcc(text, toolkit, here);
  if (!reading) return reading.error();
  ArchList out;
  out.syntax = syntax;
  out.toolkit = toolkit;
  out.notes = std::move(reading->notes);
  for (const binary::ImageRequest& image : reading->images) {
    const bool there = std::any_of(out.targets.begin(), out.targets.end(), [&](const BuiltTarget& built) {
      return built.target == image.target && built.source == image.source;
    });
    if (!there) out.targets.push_back(built_of(image, toolkit));
  }
  return out;
}

DeviceAnswer answer_on(const ArchList& list, ComputeCapability device) {
  DeviceAnswer answer;
  const std::optional<TensorOp> op = fp4_op(device);
  const BuiltTarget* best = nullptr;
  LoadVerdict best_verdict;
  std::array<int, 4> best_rank{};
  std::string refusal;
  for (const BuiltTarget& built : list.targets) {
    const LoadVerdict verdict = loads_on(built.target, device);
    if (!built.known || !verdict.loads) {
      refusal = built.known ? verdict.why : fmt::format("{}: {}", to_text(built.target), built.note);
      continue;
    }
    const bool suffix = built.target.kind != Target::Kind::plain && built.target.kind != Target::Kind::ptx;
    // The driver takes machine code before PTX; among machine code what is nearest to the device.
    const std::array<int, 4> rank = {verdict.jit ? 0 : 1, op && holds(built, *op) ? 1 : 0,
                                     built.target.cc.major * 16 + built.target.cc.minor, suffix ? 1 : 0};
    if (best != nullptr && rank <= best_rank) continue;
    best = &built;
    best_rank = rank;
    best_verdict = verdict;
  }
  if (best == nullptr) {
    answer.why =
        list.targets.size() == 1 ? refusal : fmt::format("none of {} images loads; {}", list.targets.size(), refusal);
    return answer;
  }
  answer.loads = true;
  answer.jit = best_verdict.jit;
  answer.target = best->target;
  if (!op) {
    answer.fp4 = Fp4Answer::not_there;
    answer.why = best_verdict.why + "; the device has no FP4 tensor cores";
  } else if (holds(*best, *op)) {
    answer.fp4 = Fp4Answer::native;
    answer.why = best_verdict.why;
  } else {
    answer.fp4 = Fp4Answer::no_suffix;
    answer.why = fmt::format("{}; ptxas refuses {} for {}: the suffix is missing, not the hardware", best_verdict.why,
                             name(*op), to_text(best->source));
  }
  return answer;
}

Suggestion suggest(ComputeCapability device) {
  Suggestion out;
  const Toolkit& newest = toolkits().back();
  Target target{Target::Kind::arch, device};
  if (!newest.knows(target)) target.kind = Target::Kind::plain;
  out.cuda = first_release(target);
  const std::string code = to_text(target);
  const std::string suffix = target.kind == Target::Kind::arch ? "a" : "";
  out.torch = fmt::format("{}.{}{}", device.major, device.minor, suffix);
  out.cmake = code + "-real";
  out.nvcc = fmt::format("-gencode arch=compute_{0},code=sm_{0}", code);
  const std::optional<TensorOp> op = fp4_op(device);
  for (int minor = 0; op && minor <= device.minor && out.family.empty(); ++minor) {
    const Target family{Target::Kind::family, {device.major, minor}};
    if (newest.takes(*op, family) && loads_on(family, device).loads) out.family = to_text(family);
  }
  return out;
}

}  // namespace tetrad
