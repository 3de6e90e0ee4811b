// The measured limits of this CPU.
#pragma once

#include <string>

#include "tetrad/device.hpp"

namespace tetrad {

struct HostRoof {
  double read_bytes_per_s = 0.0;  // best of three read kernels on all threads, buffer well above the last cache
  double fma_flops_per_s = 0.0;   // fp32 multiply-add on all threads, registers only
  double int8_ops_per_s = 0.0;    // int8 multiply-add (2 operations) on all threads, registers only
  int threads = 0;
  std::string read_kernel;  // which one was best
  std::string isa;          // "avx2", ...
  std::string int8_kernel;  // instruction of the int8 rate: "maddubs", "vpdpbusd", ...
};

// Takes about a second. The int8 rate is that of the widest u8 x i8 instruction among this CPU's Highway targets,
// without the additions and conversions that a kernel needs around it: no int8 row can be faster. `threads` 0 = all.
HostRoof measure_host(int threads = 0);
// host_device() with the measured bandwidth and rates filled in (Origin::measured).
DeviceProfile host_device(const HostRoof& roof);

}  // namespace tetrad
