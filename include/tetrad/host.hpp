// The measured limits of this CPU.
#pragma once

#include <string>

#include "tetrad/device.hpp"

namespace tetrad {

struct HostRoof {
  double read_bytes_per_s = 0.0;  // best of three read kernels on all threads, buffer well above the last cache
  double fma_flops_per_s = 0.0;   // fp32 multiply-add on all threads, registers only
  int threads = 0;
  std::string read_kernel;  // which one was best
  std::string isa;          // "avx2", ...
};

// Takes about a second. `threads` 0 = all.
HostRoof measure_host(int threads = 0);
// host_device() with the measured bandwidth and rates filled in (Origin::measured).
DeviceProfile host_device(const HostRoof& roof);

}  // namespace tetrad
