// Parts that run and bench share: lists of m, fields of their JSON documents.
#pragma once

#include <string_view>
#include <vector>

#include "cli.hpp"
#include "measure.hpp"

namespace tetrad::cli {

// "1,16,256": ascending and unique afterwards. Error (usage): as of the m word of a problem text.
Result<std::vector<std::int64_t>> parse_m_list(std::string_view text);

// A row that beats the roof proves that the roof was measured while others used the machine: measures it again, up to
// three times, and takes the highest. `Row` has problem, timing, unit, cached and roof, which is set.
template <class Row>
void settle_roof(std::vector<Row>& rows, HostRoof& roof, int threads) {
  for (int again = 0;; ++again) {
    bool beaten = false;
    for (Row& row : rows) {
      row.roof = measure::roof_time(row.problem, row.unit, roof, row.cached);
      beaten = beaten || (row.timing.runs > 0 && row.timing.median_s < row.roof.seconds);
    }
    if (!beaten || again == 3) return;
    roof = measure::higher(roof, measure_host(threads));
  }
}

void put_roof(nlohmann::json& out, const HostRoof& roof);              // "roof": {...}
void put_timing(nlohmann::json& out, const measure::Timing& timing);   // time_ns, time_p10_ns, time_p90_ns, runs
void put_check(nlohmann::json& out, const measure::Checked& checked);  // judgement, bound_ratio, compared, ...

}  // namespace tetrad::cli
