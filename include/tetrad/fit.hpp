// Fitting the cost model to measurements, and judging it on those that were withheld.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tetrad/candidate.hpp"
#include "tetrad/device.hpp"
#include "tetrad/records.hpp"

namespace tetrad {

// Other projects' kernels that were measured: they judge the cost model, and their fitted costs stand in for rows of
// ours that were not measured yet. None of them can be bound or launched.
std::span<const Candidate> peer_candidates();

// One measurement beside what the fitted model says, in seconds or as a ratio, like the measurement.
struct FitRow {
  Measurement measurement;
  double predicted = 0.0;
  double error = 0.0;   // predicted / measured - 1
  bool fitted = false;  // used by the fit (m = 1, 64, 1024); the others were withheld from it
  bool apart = false;   // judged apart: the measurement's note says why
};

struct FitReport {
  std::vector<FittedCost> costs;  // per kernel, in order of `peers`
  std::string pinned;             // kernel whose memory efficiency is 1 because only ratios are known; else empty
  std::vector<FitRow> rows;       // in order of the measurements
  double mean_error = 0.0;        // mean |error| of the withheld rows that are not apart
  double worst_error = 0.0;       // the one of largest |error| among them, signed
  std::size_t worst_row = 0;
};

// Least squares of log(predicted / measured) over two efficiencies per kernel, each at most 1, on m = 1, 64 and 1024
// alone. Where a device has ratios only, their common scale is pinned: the kernel that moves the most bytes per time at
// the smallest m is taken to reach the device's read bandwidth. Deterministic. Errors (input): a measured kernel that
// is no peer; a fact of the device that the model needs is unknown; no measurement to fit.
Result<FitReport> fit_costs(const DeviceProfile& device, std::span<const Candidate> peers,
                            std::span<const Measurement> measurements);

// The report as Markdown tables: efficiencies per kernel, then measured against predicted, withheld rows marked.
std::string to_markdown(const FitReport& report, const DeviceProfile& device);

}  // namespace tetrad
