// The three ways to write a list of architectures.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "binary/arch_list.hpp"
#include "core/text.hpp"
#include "device/quote.hpp"

namespace tetrad::binary {
namespace {

// Generation names of TORCH_CUDA_ARCH_LIST and what they stand for. Source: torch 2.15.0, torch/utils/cpp_extension.py,
// _get_cuda_arch_flags.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kTorchNames = {
    {{"Kepler+Tesla", "3.7"},
     {"Kepler", "3.5+PTX"},
     {"Maxwell+Tegra", "5.3"},
     {"Maxwell", "5.0;5.2+PTX"},
     {"Pascal", "6.0;6.1+PTX"},
     {"Volta+Tegra", "7.2"},
     {"Volta", "7.0+PTX"},
     {"Turing", "7.5+PTX"},
     {"Ampere+Tegra", "8.7"},
     {"Ampere", "8.0;8.6+PTX"},
     {"Ada", "8.9+PTX"},
     {"Hopper", "9.0+PTX"},
     {"Blackwell+Tegra", "11.0"},
     {"Blackwell", "10.0;10.3;12.0;12.1+PTX"},
     {"Rubin", "10.7+PTX"}}};

Result<Ok> add_torch_item(const std::string& item, const std::string& from, ListReading& out) {
  std::string_view number = item;
  const bool ptx = number.ends_with("+PTX");
  if (ptx) number.remove_suffix(4);
  const std::size_t dot = number.find('.');
  std::string joined(number);
  if (dot != std::string_view::npos) joined.erase(dot, 1);
  const std::size_t digits = joined.find_first_not_of("0123456789");
  const std::size_t minor = (digits == std::string::npos ? joined.size() : digits);
  Result<Target> target = parse_target(joined);
  if (dot == std::string_view::npos || dot + 1 != minor || !target || target->kind == Target::Kind::host) {
    std::vector<std::string> names;
    for (const auto& [name, list] : kTorchNames) names.emplace_back(name);
    return unknown_item(item, "a number like 8.0, 9.0a, 12.0f or 12.0+PTX, or a name like Hopper",
                        core::did_you_mean(item, names));
  }
  if (target->kind == Target::Kind::family) {
    out.notes.push_back(
        fmt::format("{}: torch.utils.cpp_extension (2.15) refuses names with 'f'; builds by CMake take "
                    "them",
                    item));
  }
  const Target source = ptx_of(*target);
  out.images.push_back({*target, source, from});
  if (ptx) out.images.push_back({source, source, from});
  return Ok{};
}

}  // namespace

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Target ptx_of(const Target& target) {
  Target out = target;
  if (out.kind == Target::Kind::plain) out.kind = Target::Kind::ptx;
  if (out.kind == Target::Kind::arch) out.kind = Target::Kind::ptx_arch;
  if (out.kind == Target::Kind::family) out.kind = Target::Kind::ptx_family;
  return out;
}

Error unknown_item(std::string_view item, std::string need, std::string hint) {
  return {ErrorKind::usage,    "TE0882", "unknown architecture", "LIST", std::move(need),
          device::quote(item), {},       std::move(hint)};
}

Result<ListReading> read_torch(std::string_view text) {
  ListReading out;
  for (const std::string& item : split(text, "; \t\n,")) {
    const auto named = std::find_if(kTorchNames.begin(), kTorchNames.end(),
                                    [&](const auto& row) { return core::lower(row.first) == core::lower(item); });
    const std::string_view list = named == kTorchNames.end() ? std::string_view(item) : named->second;
    for (const std::string& part : split(list, ";")) {
      if (Status status = add_torch_item(part, item, out); !status) return status.error();
    }
  }
  const bool plain_blackwell = std::any_of(out.images.begin(), out.images.end(), [](const ImageRequest& image) {
    return image.target.kind == Target::Kind::plain && image.target.cc >= ComputeCapability{10, 0};
  });
  if (plain_blackwell)
    out.notes.push_back("+PTX adds PTX of the same plain target; it adds no FP4 instructions either");
  return out;
}

Result<bool> expand_word(std::string_view word, const Toolkit& toolkit, std::optional<ComputeCapability> here,
                         ListReading& out) {
  const std::string from(word);
  if (word == "native") {
    if (!here) {
      return Error{ErrorKind::usage,
                   "TE0884",
                   "'native' means the gpu of the machine that builds",
                   "LIST",
                   "--device, the gpu that is there",
                   "no device",
                   {},
                   "--device gb10"};
    }
    Target target{Target::Kind::plain, *here};
    out.images.push_back({target, ptx_of(target), from});
    out.notes.push_back("'native' takes the plain number without a suffix, so no FP4 instructions");
    return true;
  }
  if (word != "all" && word != "all-major") return false;
  Target highest_major;
  bool first = true;
  for (const std::string& name : toolkit.targets) {
    const Result<Target> target = parse_target(name);
    if (!target || target->kind != Target::Kind::plain) continue;
    if (word == "all" || target->cc.minor == 0 || first) out.images.push_back({*target, ptx_of(*target), from});
    first = false;
    if (target->cc.minor == 0)
      highest_major = std::max(highest_major.cc, target->cc) == target->cc ? *target : highest_major;
  }
  out.images.push_back({ptx_of(highest_major), ptx_of(highest_major), from});
  out.notes.push_back(fmt::format("'{}' takes plain targets only: no FP4 instructions in any of them", word));
  return true;
}

Result<ListReading> read_cmake(std::string_view text, const Toolkit& toolkit, std::optional<ComputeCapability> here) {
  ListReading out;
  for (const std::string& item : split(text, "; \t\n,")) {
    Result<bool> word = expand_word(item, toolkit, here, out);
    if (!word) return word.error();
    if (*word) continue;
    std::string_view number = item;
    const bool real = number.ends_with("-real");
    const bool virtual_only = number.ends_with("-virtual");
    if (real) number.remove_suffix(5);
    if (virtual_only) number.remove_suffix(8);
    const Result<Target> target = parse_target(number);
    if (!target || number.empty() || number[0] < '0' || number[0] > '9') {
      const std::vector<std::string> words = {"all", "all-major", "native"};
      return unknown_item(item, "a number like 90a, 120f-real or 80-virtual, or all, all-major, native",
                          core::did_you_mean(item, words));
    }
    const Target source = ptx_of(*target);
    if (!virtual_only) out.images.push_back({*target, source, item});
    if (!real) out.images.push_back({source, source, item});
  }
  return out;
}

}  // namespace tetrad::binary
