// Counted bytes and operations, and the cost parameters that hold on a device (internal; docs/cost-model.md).
#pragma once

#include "tetrad/candidate.hpp"
#include "tetrad/device.hpp"
#include "tetrad/plan.hpp"
#include "tetrad/problem.hpp"
#include "tetrad/records.hpp"

namespace tetrad::select {

// Exponent of the smooth maximum of memory and compute time. One value for all kernels and devices.
inline constexpr double kOverlap = 3.0;
// One kernel launch inside a replayed graph, with ramp and drain. H200: a kernel that only reads took 2.1 us (9.4 MB)
// to 2.6 us (100 MB) more than its bytes at the steady rate, 2026-11. Other GPUs: assumed to be the same.
inline constexpr double kGpuLaunch = 2.5e-6;
// Waking and joining the threads of a CPU. Assumed.
inline constexpr double kHostLaunch = 5e-6;

// Bytes moved by a candidate: weights, activations, results, what it writes and reads again in between.
double bytes_moved(const Problem& problem, const Candidate& candidate);
// Multiply-adds times two, m padded to the tile and tiles padded to full waves over the device's SMs.
double padded_operations(const Problem& problem, const DeviceProfile& device, const Candidate& candidate);
// Bytes of scratch memory of one call.
double workspace_bytes(const Problem& problem, const Candidate& candidate);

struct ChosenCost {
  CostParams params;
  Basis basis = Basis::model_assumed;
};
// Fitted for this kernel and device, else its stand-in's there, else the row's own assumption.
ChosenCost cost_on(const Candidate& candidate, const DeviceProfile& device, const Records& records);

// A measurement of this kernel on this device for this problem and machine code, the last one recorded; null if none.
// `problem.acc` does not matter: it allows kernels, it does not change one.
const Measurement* measurement_of(const Problem& problem, const DeviceProfile& device, const Candidate& candidate,
                                  const Records& records);

// The time to rank by: measured if `use_measurements` and there is one, else modelled.
Estimate estimate(const Problem& problem, const DeviceProfile& device, const Candidate& candidate,
                  const Records& records, bool use_measurements);

}  // namespace tetrad::select
