// What a binary was compiled for, and whether that loads on a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tetrad/error.hpp"

namespace tetrad {

// A compute capability, 12.1 = {12, 1}.
struct ComputeCapability {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const ComputeCapability&, const ComputeCapability&) = default;
};

// `plain` "90", `arch` "90a" (this exact capability), `family` "120f", `ptx` "compute_80" (compiled by the driver),
// `host` code for the CPU ("cpu"), which loads where the device is the CPU.
struct Target {
  enum class Kind : std::uint8_t { host, plain, arch, family, ptx, ptx_arch, ptx_family };
  Kind kind = Kind::host;
  ComputeCapability cc;
  friend bool operator==(const Target&, const Target&) = default;
};

// "cpu", "90", "sm_90a", "120f", "compute_80", "compute_90a", "compute_120f". Error (usage): anything else; `a`
// below 9.0 and `f` below 10.0 do not exist.
Result<Target> parse_target(std::string_view text);
std::string to_text(const Target& target);

// Why a target does or does not load; `why` is one lower-case line for people.
struct LoadVerdict {
  bool loads = false;
  bool jit = false;  // loads, but only after the driver compiled PTX
  std::string why;
};

// The one place that knows CUDA's loading rules (device {0,0} is a CPU):
//   plain  same major, minor <= device's        arch    exactly the device's capability
//   family same family, minor <= device's       ptx     any device at or above; ptx_arch, ptx_family as their cubins
// Machine code does not cross between Jetson (5.3, 6.2, 7.2, 8.7, 10.1, 11.0) and other GPUs; PTX does. A family is a
// major number; 10.1 (Thor before CUDA 13, now 11.0) is a family of its own. Source: CUDA programming guide, "Binary
// compatibility", and its table "Family-Specific Compatibility" (CUDA 12.9 on).
LoadVerdict loads_on(const Target& target, ComputeCapability device);

}  // namespace tetrad
