#include "select/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/text.hpp"
#include "select/cost.hpp"

namespace tetrad::select {
namespace {

using Answer = std::optional<Verdict>;  // empty: passed

Verdict no(Reason reason, std::string need, std::string have) { return {reason, std::move(need), std::move(have)}; }

std::string list(const std::vector<DType>& types) {
  std::vector<std::string_view> names;
  for (const DType type : types) names.push_back(name(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string code_of(const DeviceProfile& device) {
  return device.host ? std::string("cpu") : fmt::format("sm_{}{}", device.cc.major, device.cc.minor);
}

Answer asked(const CheckContext& x, const Problem&, const Candidate& c) {
  for (const std::string& pattern : x.options.exclude) {
    if (matches(pattern, c.name)) return no(Reason::excluded, "not excluded", fmt::format("--exclude {}", pattern));
  }
  if (!x.options.force.empty() && c.name != x.options.force) {
    return no(Reason::not_forced, fmt::format("--force {}", c.name), fmt::format("--force {}", x.options.force));
  }
  if (c.reference && c.name != x.options.force) {
    return no(Reason::reference_only, "to be forced", "not forced");
  }
  if (x.options.question == Question::this_build && !c.built) {
    return no(Reason::not_built, "built code", "declared");
  }
  return {};
}

Answer target(const CheckContext& x, const Problem&, const Candidate& c) {
  const bool host_code = c.target.kind == Target::Kind::host;
  const bool loads = host_code ? x.device.host : !x.device.host && loads_on(c.target, x.device.cc).loads;
  if (loads) return {};
  return no(Reason::target_mismatch, to_text(c.target), code_of(x.device));
}

Answer features(const CheckContext& x, const Problem&, const Candidate& c) {
  std::vector<std::string_view> missing;
  for (const Feature feature : c.features) {
    if (!x.device.has(feature)) missing.push_back(name(feature));
  }
  if (missing.empty()) return {};
  return no(Reason::missing_feature, fmt::format("{}", fmt::join(missing, ", ")), "not on this device");
}

Answer shared_memory(const CheckContext& x, const Problem&, const Candidate& c) {
  if (c.smem_bytes == 0) return {};
  if (!x.device.smem_per_block_optin.known()) {
    return no(Reason::unknown_fact, "shared memory per block", "unknown");
  }
  const std::int64_t have = *x.device.smem_per_block_optin.value;
  if (c.smem_bytes <= have) return {};
  return no(Reason::shared_memory, fmt::format("{} B", c.smem_bytes), fmt::format("{} B", have));
}

bool holds(const std::vector<DType>& types, DType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Answer types(const CheckContext& x, const Problem& p, const Candidate& c) {
  if (!holds(c.a_types, p.a)) return no(Reason::activation_type, list(c.a_types), std::string(name(p.a)));
  if (!holds(c.w_types, p.w)) return no(Reason::weight_type, list(c.w_types), std::string(name(p.w)));
  if (!holds(c.out_types, p.out)) return no(Reason::output_type, list(c.out_types), std::string(name(p.out)));
  if (c.acc > p.acc) {
    return no(Reason::accuracy, fmt::format("acc={}", name(c.acc)), fmt::format("acc={}", name(p.acc)));
  }
  if (c.needs_input_scale && !x.options.has_input_scale) {
    return no(Reason::input_scale, "a static activation scale", "none");
  }
  const std::string& layout = x.options.layout ? *x.options.layout : x.layout;
  if (!layout.empty() && c.layout != layout) return no(Reason::layout, c.layout, layout);
  return {};
}

Answer sizes(const CheckContext& x, const Problem& p, const Candidate& c) {
  if (p.m < c.m_min || (c.m_max > 0 && p.m > c.m_max)) {
    const std::string need =
        c.m_max > 0 ? fmt::format("m {} to {}", c.m_min, c.m_max) : fmt::format("m >= {}", c.m_min);
    return no(Reason::m_range, need, fmt::format("m {}", p.m));
  }
  if (p.n % c.n_multiple != 0) {
    return no(Reason::n_multiple, fmt::format("n a multiple of {}", c.n_multiple), fmt::format("n {}", p.n));
  }
  if (p.k % c.k_multiple != 0) {
    return no(Reason::k_multiple, fmt::format("k a multiple of {}", c.k_multiple), fmt::format("k {}", p.k));
  }
  if (p.groups > 1 && !c.grouped) return no(Reason::grouped, "groups 1", fmt::format("groups {}", p.groups));
  if (p.bias && !c.bias) return no(Reason::bias, "no bias", "bias");
  const double bytes = workspace_bytes(p, c);
  if (x.options.workspace_limit >= 0 && bytes > static_cast<double>(x.options.workspace_limit)) {
    return no(Reason::workspace, fmt::format("{:.0f} B", bytes), fmt::format("{} B", x.options.workspace_limit));
  }
  if (x.options.deterministic && !c.deterministic) {
    return no(Reason::determinism, "the same bits twice", "order of sums varies");
  }
  return {};
}

Answer proof(const CheckContext& x, const Problem&, const Candidate& c) {
  const std::string failure = probe_failure(x.records, c.name, x.device.slug, c.digest);
  const Evidence evidence = evidence_of(x.records, c.name, x.device.slug, c.built, c.digest);
  if (x.options.question == Question::this_build && !x.options.accept_built && evidence < Evidence::probed &&
      failure.empty()) {
    return no(Reason::not_probed, "a probe on this device", std::string(name(evidence)));
  }
  if (!failure.empty()) return no(Reason::probe_failed, "a passed probe", failure);
  return {};
}

}  // namespace

bool matches(const std::string& pattern, const std::string& kernel) { return core::glob_match(pattern, kernel); }

Verdict check(const CheckContext& context, const Problem& problem, const Candidate& candidate) {
  constexpr std::array kChecks{asked, target, features, shared_memory, types, sizes, proof};
  Verdict unknown;
  for (const auto& run : kChecks) {
    const Answer answer = run(context, problem, candidate);
    if (!answer) continue;
    if (answer->reason != Reason::unknown_fact) return *answer;
    unknown = *answer;
  }
  return unknown;
}

}  // namespace tetrad::select
