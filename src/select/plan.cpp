#include "tetrad/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "core/text.hpp"
#include "select/checks.hpp"
#include "select/cost.hpp"

namespace tetrad {
namespace {

using select::CheckContext;

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// The inputs of one plan, and the layout that is being tried.
struct Planner {
  const ProblemSet& problem;
  std::span<const Candidate> candidates;
  CheckContext context;

  Problem at(std::int64_t m) const {
    Problem p = problem.base;
    p.m = m;
    return p;
  }
  Estimate estimate(const Problem& p, const Candidate& c) const {
    return select::estimate(p, context.device, c, context.records, context.options.use_measurements);
  }
  bool eligible(std::size_t index, std::int64_t m) const {
    return index != kNone && select::check(context, at(m), candidates[index]).eligible();
  }
  // Rank of an eligible candidate: its time, or infinity where that is unknown.
  double rank(std::size_t index, std::int64_t m) const {
    const double seconds = estimate(at(m), candidates[index]).seconds;
    return seconds > 0.0 ? seconds : std::numeric_limits<double>::infinity();
  }
  // True where `later` is to be used at m rather than `earlier`. Ties: table order.
  bool prefers(std::size_t later, std::size_t earlier, std::int64_t m) const {
    if (!eligible(later, m)) return false;
    if (!eligible(earlier, m)) return true;
    const double a = rank(later, m);
    const double b = rank(earlier, m);
    return a < b || (a == b && later < earlier);
  }
};

struct Picked {
  Choice choice;
  std::size_t index = kNone;
};

Verdict slower(const Estimate& best, const Estimate& own) {
  std::string need = best.seconds > 0.0 ? "below " + core::time_text(best.seconds) : "an earlier row of the table";
  std::string have = own.seconds > 0.0 ? core::time_text(own.seconds) : "unknown: " + own.missing;
  return {Reason::slower, std::move(need), std::move(have)};
}

Picked pick(const Planner& planner, std::int64_t m) {
  const Problem problem = planner.at(m);
  Picked picked;
  Choice& choice = picked.choice;
  choice.m = m;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < planner.candidates.size(); ++i) {
    const Candidate& candidate = planner.candidates[i];
    Considered considered;
    considered.kernel = candidate.name;
    considered.verdict = select::check(planner.context, problem, candidate);
    considered.evidence = evidence_of(planner.context.records, candidate.name, planner.context.device.slug,
                                      candidate.built, candidate.digest);
    considered.estimate = planner.estimate(problem, candidate);
    if (considered.verdict.eligible()) {
      const double seconds =
          considered.estimate.seconds > 0.0 ? considered.estimate.seconds : std::numeric_limits<double>::infinity();
      if (picked.index == kNone || seconds < best) {
        picked.index = i;
        best = seconds;
      }
    }
    choice.considered.push_back(std::move(considered));
  }
  if (picked.index != kNone) {
    const Considered& chosen = choice.considered[picked.index];
    choice.kernel = chosen.kernel;
    choice.evidence = chosen.evidence;
    choice.estimate = chosen.estimate;
    for (std::size_t i = 0; i < choice.considered.size(); ++i) {
      Considered& other = choice.considered[i];
      if (i != picked.index && other.verdict.eligible()) other.verdict = slower(choice.estimate, other.estimate);
    }
  }
  const Estimate limit = device_limit(problem, planner.context.device);
  choice.limit_s = limit.seconds;
  choice.limit_by = limit.limit;
  return picked;
}

// The first m in (low, high] for which `test` holds; it must hold at high and not at low.
template <class Test>
std::int64_t first_true(std::int64_t low, std::int64_t high, const Test& test) {
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (test(middle) ? high : low) = middle;
  }
  return high;
}

// Smallest m from 1 up to `m` at which the kernel is eligible without a gap; sizes limit m from below only by m_min.
std::int64_t reach_down(const Planner& planner, std::size_t index, std::int64_t m) {
  if (index == kNone || planner.eligible(index, 1)) return 1;
  return first_true(1, m, [&](std::int64_t at) { return planner.eligible(index, at); });
}

// First m in (m, end] at which the kernel is not eligible; `end` if there is none.
std::optional<std::int64_t> reach_up(const Planner& planner, std::size_t index, std::int64_t m,
                                     std::optional<std::int64_t> end) {
  constexpr std::int64_t kMostRows = (std::int64_t{1} << 31) - 1;
  const std::int64_t last = end ? *end - 1 : kMostRows;
  if (index == kNone || last <= m || planner.eligible(index, last)) return end;
  return first_true(m, last, [&](std::int64_t at) { return !planner.eligible(index, at); });
}

void set_ranges(const Planner& planner, std::vector<Picked>& picked) {
  for (std::size_t i = 0; i < picked.size(); ++i) {
    Choice& choice = picked[i].choice;
    if (i == 0) choice.m_begin = reach_down(planner, picked[i].index, choice.m);
    if (i + 1 == picked.size()) {
      choice.m_end = reach_up(planner, picked[i].index, choice.m, std::nullopt);
      continue;
    }
    Picked& next = picked[i + 1];
    const bool same = next.index == picked[i].index;
    std::int64_t boundary = next.choice.m;
    if (!same && next.index != kNone) {
      boundary = first_true(choice.m, next.choice.m,
                            [&](std::int64_t m) { return planner.prefers(next.index, picked[i].index, m); });
    }
    choice.m_end = reach_up(planner, picked[i].index, choice.m, boundary);
    next.choice.m_begin = boundary;
  }
}

struct Score {
  std::size_t without = 0;  // values of m that no kernel serves
  std::size_t unknown = 0;  // choices without a time
  double seconds = 0.0;
  friend auto operator<=>(const Score&, const Score&) = default;
};

Score score(const std::vector<Picked>& picked) {
  Score total;
  for (const Picked& p : picked) {
    if (p.index == kNone) {
      ++total.without;
    } else if (p.choice.estimate.seconds <= 0.0) {
      ++total.unknown;
    } else {
      total.seconds += p.choice.estimate.seconds;
    }
  }
  return total;
}

std::vector<Picked> pick_all(const Planner& planner) {
  std::vector<Picked> picked;
  for (const std::int64_t m : planner.problem.m) picked.push_back(pick(planner, m));
  return picked;
}

// Distinct layouts of the candidates that some asked m could use, in table order.
std::vector<std::string> layouts(const Planner& planner) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < planner.candidates.size(); ++i) {
    const std::string& layout = planner.candidates[i].layout;
    if (std::find(found.begin(), found.end(), layout) != found.end()) continue;
    const auto& m = planner.problem.m;
    if (std::any_of(m.begin(), m.end(), [&](std::int64_t at) { return planner.eligible(i, at); })) {
      found.push_back(layout);
    }
  }
  return found;
}

Error plan_error(ErrorKind kind, std::string id, std::string what, std::string need, std::string have,
                 std::string hint) {
  return {kind, std::move(id), std::move(what), {}, std::move(need), std::move(have), {}, std::move(hint)};
}

// Names that the options use must exist.
Status check_names(std::span<const Candidate> candidates, const PlanOptions& options) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.name);
  const auto hint = [&](const std::string& word) {
    const std::string near = core::did_you_mean(word, names);
    return near.empty() ? std::string("tetrad kernels lists them") : near;
  };
  if (!options.force.empty() && std::find(names.begin(), names.end(), options.force) == names.end()) {
    return plan_error(ErrorKind::usage, "TE0501", fmt::format("there is no kernel '{}' to force", options.force),
                      "the name of a kernel", options.force, hint(options.force));
  }
  for (const std::string& pattern : options.exclude) {
    const bool used =
        std::any_of(names.begin(), names.end(), [&](const std::string& n) { return select::matches(pattern, n); });
    if (!used) {
      return plan_error(ErrorKind::usage, "TE0503", fmt::format("'{}' excludes no kernel", pattern),
                        "the name of a kernel, or a pattern that matches one", pattern, hint(pattern));
    }
  }
  return ok();
}

// A forced kernel must be able to run every asked m.
Status check_forced(const Planner& planner, const std::vector<Picked>& picked) {
  const std::string& force = planner.context.options.force;
  if (force.empty()) return ok();
  for (const Picked& p : picked) {
    if (p.index != kNone) continue;
    const auto& all = p.choice.considered;
    const auto forced =
        std::find_if(all.begin(), all.end(), [&](const Considered& considered) { return considered.kernel == force; });
    const Verdict& verdict = forced->verdict;
    return plan_error(
        ErrorKind::unavailable, "TE0502",
        fmt::format("{} cannot be forced at m {}: {} {}", force, p.choice.m, id(verdict.reason), name(verdict.reason)),
        verdict.need, verdict.have, fmt::format("tetrad kernels {}", force));
  }
  return ok();
}

std::vector<std::string> warnings(const Planner& planner, const std::vector<Picked>& picked) {
  std::vector<std::string> out;
  const auto add = [&](std::string text) {
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  };
  const PlanOptions& options = planner.context.options;
  if (!options.force.empty()) add(fmt::format("{} is forced; no other kernel was considered", options.force));
  const std::string& device = planner.context.device.slug;
  for (const Picked& p : picked) {
    const Estimate limit = device_limit(planner.at(p.choice.m), planner.context.device);
    if (!limit.missing.empty()) add(fmt::format("{}: {} is unknown, so the device's limit is", device, limit.missing));
    for (const Considered& considered : p.choice.considered) {
      if (considered.verdict.reason == Reason::unknown_fact) {
        add(fmt::format("{}: {} is unknown, so {} is ruled out", device, considered.verdict.need, considered.kernel));
      }
      if (considered.verdict.eligible() && !considered.estimate.missing.empty()) {
        add(fmt::format("{}: {} is unknown, so {} has no estimate and ranks last", device, considered.estimate.missing,
                        considered.kernel));
      }
    }
  }
  return out;
}

}  // namespace

std::size_t Plan::choice_for(std::int64_t m) const noexcept {
  const auto after = std::upper_bound(choices.begin(), choices.end(), m,
                                      [](std::int64_t at, const Choice& choice) { return at < choice.m_begin; });
  if (after == choices.begin()) return choices.size();
  const auto found = std::prev(after);
  if (found->m_end && m >= *found->m_end) return choices.size();
  return static_cast<std::size_t>(found - choices.begin());
}

Result<Plan> make_plan(const ProblemSet& problem, const DeviceProfile& device,
                       [[maybe_unused]] const Software& software, std::span<const Candidate> candidates,
                       const Records& records, const PlanOptions& options) {
  if (Status status = check_names(candidates, options); !status) return status.error();
  Planner planner{problem, candidates, {device, records, options, {}}};
  std::vector<Picked> picked;
  std::string layout = options.layout.value_or("");
  if (options.layout) {
    picked = pick_all(planner);
  } else {
    std::optional<Score> best;
    for (const std::string& tried : layouts(planner)) {
      planner.context.layout = tried;
      std::vector<Picked> with = pick_all(planner);
      const Score total = score(with);
      if (best && !(total < *best)) continue;
      best = total;
      layout = tried;
      picked = std::move(with);
    }
    planner.context.layout = layout;
    if (!best) picked = pick_all(planner);
  }
  if (Status status = check_forced(planner, picked); !status) return status.error();
  set_ranges(planner, picked);

  Plan plan;
  plan.question = options.question;
  plan.problem = problem;
  plan.device = device;
  plan.layout = layout;
  plan.warnings = warnings(planner, picked);
  for (Picked& p : picked) plan.choices.push_back(std::move(p.choice));
  return plan;
}

}  // namespace tetrad
