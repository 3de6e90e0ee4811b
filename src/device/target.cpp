#include "tetrad/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/quote.hpp"

namespace tetrad {
namespace {

// Capabilities of Jetson parts: "binary compatibility between desktop and Tegra is not supported" (CUDA programming
// guide).
bool is_jetson(ComputeCapability cc) {
  constexpr std::array<ComputeCapability, 6> kJetson = {{{5, 3}, {6, 2}, {7, 2}, {8, 7}, {10, 1}, {11, 0}}};
  return std::find(kJetson.begin(), kJetson.end(), cc) != kJetson.end();
}

bool same_family(ComputeCapability a, ComputeCapability b) {
  constexpr ComputeCapability kOldThor{10, 1};
  return a == b || (a.major == b.major && a != kOldThor && b != kOldThor);
}

std::string text(ComputeCapability cc) { return fmt::format("{}.{}", cc.major, cc.minor); }

LoadVerdict no(std::string why) { return {false, false, std::move(why)}; }

LoadVerdict plain_on(ComputeCapability code, ComputeCapability device) {
  const std::string both = fmt::format("built for {}, the device is {}", text(code), text(device));
  if (code.major != device.major) return no(both + ": machine code loads within its major number only");
  if (code != device && is_jetson(code) != is_jetson(device)) {
    return no(both + ": machine code does not cross between jetson and other gpus");
  }
  if (code.minor > device.minor) return no(both + ": machine code does not load on a lower minor number");
  return {true, false, both + ": same major number, minor not above the device's"};
}

LoadVerdict ptx_on(ComputeCapability code, ComputeCapability device) {
  const std::string both = fmt::format("ptx for {}, the device is {}", text(code), text(device));
  if (code > device) return no(both + ": ptx does not go down");
  return {true, true, both + ": the driver compiles it"};
}

LoadVerdict arch_on(ComputeCapability code, ComputeCapability device, bool ptx) {
  const std::string both =
      fmt::format("{} {}a, the device is {}", ptx ? "ptx for" : "built for", text(code), text(device));
  if (code != device) return no(fmt::format("{}: 'a' code runs on exactly {}", both, text(code)));
  return {true, ptx, ptx ? both + ": the driver compiles it" : both + ": exactly this capability"};
}

LoadVerdict family_on(ComputeCapability code, ComputeCapability device, bool ptx) {
  const std::string both =
      fmt::format("{} {}f, the device is {}", ptx ? "ptx for" : "built for", text(code), text(device));
  if (!same_family(code, device)) return no(both + ": another family");
  if (code.minor > device.minor) return no(both + ": a family's code does not load on a lower minor number");
  return {true, ptx, both + (ptx ? ": same family, the driver compiles it" : ": same family")};
}

}  // namespace

Result<Target> parse_target(std::string_view words) {
  const auto bad = [&](std::string need) {
    Error error;
    error.kind = ErrorKind::usage;
    error.id = "TE0309";
    error.what = "unknown target";
    error.need = std::move(need);
    error.have = device::quote(words);
    return error;
  };
  const std::string forms = "cpu, or a form of 90, sm_90a, 120f, compute_80, compute_90a, compute_120f";
  if (words == "cpu") return Target{};

  std::string_view rest = words;
  bool ptx = false;
  if (rest.starts_with("compute_")) {
    ptx = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("sm_")) {
    rest.remove_prefix(3);
  }
  char suffix = 0;
  if (rest.ends_with('a') || rest.ends_with('f')) {
    suffix = rest.back();
    rest.remove_suffix(1);
  }
  const bool digits = std::all_of(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || rest.size() < 2 || rest.size() > 3 || rest.front() == '0') return bad(forms);

  Target target;
  for (const char c : rest.substr(0, rest.size() - 1)) target.cc.major = target.cc.major * 10 + (c - '0');
  target.cc.minor = rest.back() - '0';
  if (suffix == 'a') {
    if (target.cc < ComputeCapability{9, 0}) return bad("a capability from 9.0 on before 'a'");
    target.kind = ptx ? Target::Kind::ptx_arch : Target::Kind::arch;
  } else if (suffix == 'f') {
    if (target.cc < ComputeCapability{10, 0}) return bad("a capability from 10.0 on before 'f'");
    target.kind = ptx ? Target::Kind::ptx_family : Target::Kind::family;
  } else {
    target.kind = ptx ? Target::Kind::ptx : Target::Kind::plain;
  }
  return target;
}

std::string to_text(const Target& target) {
  const std::string number = fmt::format("{}{}", target.cc.major, target.cc.minor);
  switch (target.kind) {
    case Target::Kind::host:
      return "cpu";
    case Target::Kind::plain:
      return number;
    case Target::Kind::arch:
      return number + "a";
    case Target::Kind::family:
      return number + "f";
    case Target::Kind::ptx:
      return "compute_" + number;
    case Target::Kind::ptx_arch:
      return "compute_" + number + "a";
    case Target::Kind::ptx_family:
      return "compute_" + number + "f";
  }
  return "";
}

LoadVerdict loads_on(const Target& target, ComputeCapability device) {
  const bool cpu = device == ComputeCapability{};
  if (target.kind == Target::Kind::host) {
    return cpu ? LoadVerdict{true, false, "code for this cpu"} : no("code for the cpu, the device is a gpu");
  }
  if (cpu) return no(fmt::format("{} is gpu code, the device is a cpu", to_text(target)));
  switch (target.kind) {
    case Target::Kind::plain:
      return plain_on(target.cc, device);
    case Target::Kind::ptx:
      return ptx_on(target.cc, device);
    case Target::Kind::arch:
    case Target::Kind::ptx_arch:
      return arch_on(target.cc, device, target.kind == Target::Kind::ptx_arch);
    case Target::Kind::family:
    case Target::Kind::ptx_family:
      return family_on(target.cc, device, target.kind == Target::Kind::ptx_family);
    case Target::Kind::host:
      break;
  }
  return no("");
}

}  // namespace tetrad
