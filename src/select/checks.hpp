// The ordered checks that a candidate must pass (internal).
#pragma once

#include <string>

#include "tetrad/candidate.hpp"
#include "tetrad/plan.hpp"
#include "tetrad/records.hpp"
#include "tetrad/verdict.hpp"

namespace tetrad::select {

// What the checks of one plan look at besides the problem and the candidate.
struct CheckContext {
  const DeviceProfile& device;
  const Records& records;
  const PlanOptions& options;
  std::string layout;  // that the plan's kernels share; empty: not settled yet
};

// True if `pattern` ("sm120_*") or name means this kernel.
bool matches(const std::string& pattern, const std::string& kernel);

// The first "no" in the order of Reason; unknown_fact only if nothing after it says no; else eligible.
Verdict check(const CheckContext& context, const Problem& problem, const Candidate& candidate);

}  // namespace tetrad::select
