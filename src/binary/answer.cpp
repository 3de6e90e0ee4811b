#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tetrad/binary.hpp"

namespace tetrad {
namespace {

// The image that the driver takes among those that load: the nearest capability, then the narrowest suffix.
const Target* best_of(const std::vector<Target>& targets, ComputeCapability device) {
  const auto narrow = [](const Target& target) {
    const bool exact = target.kind == Target::Kind::arch || target.kind == Target::Kind::ptx_arch;
    const bool family = target.kind == Target::Kind::family || target.kind == Target::Kind::ptx_family;
    return exact ? 2 : family ? 1 : 0;
  };
  const Target* best = nullptr;
  for (const Target& target : targets) {
    if (!loads_on(target, device).loads) continue;
    if (best == nullptr || std::tuple(best->cc, narrow(*best)) < std::tuple(target.cc, narrow(target))) best = &target;
  }
  return best;
}

// Targets that load on `device`, the narrowest first.
std::string needed(ComputeCapability device) {
  if (device == ComputeCapability{}) return "code for the cpu";
  const std::string number = fmt::format("{}{}", device.major, device.minor);
  std::string out;
  if (device >= ComputeCapability{9, 0}) out += number + "a, ";
  if (device >= ComputeCapability{10, 0}) out += number + "f, ";
  // Lower minor numbers of the same family load too; the lowest there is.
  for (int minor = 0; minor < device.minor; ++minor) {
    const Target family{Target::Kind::family, {device.major, minor}};
    if (device >= ComputeCapability{10, 0} && loads_on(family, device).loads) {
      out += fmt::format("{}{}f, ", device.major, minor);
      break;
    }
  }
  return out + fmt::format("{} or compute_{}", number, number);
}

// Why nothing of a module loads: the reason of the target that comes nearest.
std::string why_missing(const ModuleKind& kind, ComputeCapability device) {
  const Target* nearest = nullptr;
  const auto rank = [&](const Target& target) {
    const bool same = target.cc.major == device.major;
    return std::tuple(same, target.cc <= device, target.cc);
  };
  for (const std::vector<Target>* list : {&kind.cubins, &kind.ptx}) {
    for (const Target& target : *list) {
      if (nearest == nullptr || rank(*nearest) < rank(target)) nearest = &target;
    }
  }
  if (nearest == nullptr) return "only input for a linker (LTO-IR), nothing that loads";
  return loads_on(*nearest, device).why;
}

}  // namespace

DeviceAnswer answer_for(const BinaryFile& file, ComputeCapability device) {
  DeviceAnswer answer;
  std::vector<const Target*> picked(file.kinds.size(), nullptr);
  const auto loaded = [&](const Target& target, bool jit, std::uint64_t modules) {
    for (DeviceAnswer::Loaded& item : answer.loaded) {
      if (item.target == target && item.jit == jit) {
        item.modules += modules;
        return;
      }
    }
    answer.loaded.push_back({target, jit, modules});
  };
  for (std::size_t i = 0; i < file.kinds.size(); ++i) {
    const ModuleKind& kind = file.kinds[i];
    if (const Target* cubin = best_of(kind.cubins, device); cubin != nullptr) {
      picked[i] = cubin;
      answer.native_modules += kind.modules;
      loaded(*cubin, false, kind.modules);
    } else if (const Target* ptx = best_of(kind.ptx, device); ptx != nullptr) {
      answer.jit_modules += kind.modules;
      if (kind.fp4_text) answer.fp4_jit_modules += kind.modules;
      loaded(*ptx, true, kind.modules);
    } else {
      answer.missing_modules += kind.modules;
      const std::string why = why_missing(kind, device);
      const auto same = std::find_if(answer.missing.begin(), answer.missing.end(),
                                     [&](const DeviceAnswer::Missing& item) { return item.why == why; });
      if (same != answer.missing.end()) {
        same->modules += kind.modules;
      } else {
        answer.missing.push_back({why, needed(device), kind.modules});
      }
    }
  }
  for (std::size_t i = 0; i < file.groups.size(); ++i) {
    const KernelGroup& group = file.groups[i];
    if (group.kind >= picked.size() || picked[group.kind] == nullptr || !(*picked[group.kind] == group.target))
      continue;
    answer.groups.push_back(i);
    answer.software_fp4 += group.software_fp4;
    for (std::size_t v = 0; v < kKernelClasses; ++v) answer.verdicts[v] += group.verdicts[v];
  }
  const auto more = [](const auto& a, const auto& b) { return a.modules > b.modules; };
  std::stable_sort(answer.loaded.begin(), answer.loaded.end(), more);
  std::stable_sort(answer.missing.begin(), answer.missing.end(), more);
  return answer;
}

}  // namespace tetrad
