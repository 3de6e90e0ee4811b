// make_plan: from a problem, a device and a list of candidates to a choice per range of m, with every reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/candidate.hpp"
#include "tetrad/device.hpp"
#include "tetrad/error.hpp"
#include "tetrad/problem.hpp"
#include "tetrad/records.hpp"
#include "tetrad/software.hpp"
#include "tetrad/verdict.hpp"

namespace tetrad {

// What a time rests on.
enum class Basis : std::uint8_t { none, model_assumed, model_fitted, measured };
std::string_view name(Basis basis);

struct Estimate {
  double seconds = 0.0;  // 0 if unknown
  Basis basis = Basis::none;
  std::string source;       // where the time or the cost parameters come from
  double bytes = 0.0;       // moved
  double operations = 0.0;  // done, padding included
  std::string limit;        // "memory", "nvfp4", "launch": what bounds it
  std::string missing;      // the unknown fact that an estimate would need; empty if none
};

// One candidate for one m.
struct Considered {
  std::string kernel;
  Verdict verdict;
  Evidence evidence = Evidence::declared;
  Estimate estimate;
};

// The answer for one range of m. Estimates are for `m`, the asked value inside the range. Between two asked values
// whose choices differ the boundary is where the cost model prefers the later one (found by bisection); where they are
// the same, the later asked value. A range ends where its kernel's limits end; below the first asked value it reaches
// down to them.
struct Choice {
  std::int64_t m_begin = 1;           // first m of the range
  std::optional<std::int64_t> m_end;  // first m after it; none: without end
  std::int64_t m = 1;
  std::string kernel;  // empty: nothing can run
  Evidence evidence = Evidence::declared;
  Estimate estimate;
  double limit_s = 0.0;                // the device's own limit for this problem and acc; 0 if unknown
  std::string limit_by;                // "memory", "nvfp4 rate", ...
  std::vector<Considered> considered;  // every candidate, table order, the chosen one included
};

// The two questions that a plan answers; they are never mixed.
enum class Question : std::uint8_t { this_build, if_built };

struct Plan {
  Question question = Question::this_build;
  ProblemSet problem;
  DeviceProfile device;
  std::string layout;                 // weight layout that all choices share
  std::vector<Choice> choices;        // one per asked m
  std::vector<std::string> warnings;  // forced kernels, unknown facts

  // The kernel for a run-time m, index into `choices`; choices.size() where no range holds m. No allocation, no lock;
  // under 100 ns.
  std::size_t choice_for(std::int64_t m) const noexcept;
};

struct PlanOptions {
  Question question = Question::this_build;
  std::string force;                  // kernel that must be chosen; ineligible: an error with its verdict
  std::vector<std::string> exclude;   // kernels or patterns ("sm120_*")
  bool deterministic = false;         // only kernels that give the same bits twice
  bool accept_built = true;           // choose rows that were not probed on the device
  bool has_input_scale = true;        // a static activation scale is at hand or may be made
  bool use_measurements = true;       // off: judge the cost model alone
  std::optional<std::string> layout;  // the weights are packed already
  std::int64_t workspace_limit = -1;  // bytes; -1 = no limit
};

// Pure function of its arguments. Errors: unknown forced or excluded name (usage), ineligible forced kernel
// (unavailable, with its verdict). A problem that no candidate can run is not an error: its choices have no kernel.
Result<Plan> make_plan(const ProblemSet& problem, const DeviceProfile& device, const Software& software,
                       std::span<const Candidate> candidates, const Records& records, const PlanOptions& options);

// For people: columns <= 100. `verbose` adds the bytes and operations behind each estimate.
std::string to_text(const Plan& plan, bool verbose);
// Schema "tetrad.plan/1.0".
std::string to_json(const Plan& plan);

// The roofline of the device for one problem: bytes over bandwidth or operations over the best allowed rate.
Estimate device_limit(const Problem& problem, const DeviceProfile& device);
// Time of one candidate for one problem by the cost model.
Estimate model_time(const Problem& problem, const DeviceProfile& device, const Candidate& candidate,
                    const CostParams& cost);

}  // namespace tetrad
