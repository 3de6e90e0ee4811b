#include "verb_common.hpp"

#include <fmt/format.h>

#include "tetrad/problem.hpp"

namespace tetrad::cli {

Result<std::vector<std::int64_t>> parse_m_list(std::string_view text) {
  const Result<ProblemSet> parsed = parse_problem(fmt::format("m{} n16 k16", text));
  if (!parsed) return parsed.error();
  return parsed->m;
}

void put_roof(nlohmann::json& out, const HostRoof& roof) {
  out["roof"] = {{"read_bytes_per_s", roof.read_bytes_per_s},
                 {"fma_flop_per_s", roof.fma_flops_per_s},
                 {"int8_op_per_s", roof.int8_ops_per_s},
                 {"int8_kernel", roof.int8_kernel},
                 {"threads", roof.threads},
                 {"read_kernel", roof.read_kernel},
                 {"isa", roof.isa}};
}

void put_timing(nlohmann::json& out, const measure::Timing& timing) {
  out["time_ns"] = timing.median_s * 1e9;
  out["time_p10_ns"] = timing.low_s * 1e9;
  out["time_p90_ns"] = timing.high_s * 1e9;
  out["runs"] = timing.runs;
}

void put_check(nlohmann::json& out, const measure::Checked& checked) {
  out["judgement"] = measure::word(checked.report.judgement);
  out["bound_ratio"] = checked.report.worst_ratio;
  out["relative_l2"] = checked.report.relative_l2;
  out["elements"] = checked.report.elements;
  out["over_bound"] = checked.report.over_bound;
  out["compared"] = checked.compared;
}

}  // namespace tetrad::cli
