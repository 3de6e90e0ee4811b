// Parts that run and bench share: lists of m, fields of their JSON documents.
#pragma once

#include <string_view>
#include <vector>

#include "cli.hpp"
#include "measure.hpp"

namespace tetrad::cli {

// "1,16,256": ascending and unique afterwards. Error (usage): as of the m word of a problem text.
Result<std::vector<std::int64_t>> parse_m_list(std::string_view text);

void put_roof(nlohmann::json& out, const HostRoof& roof);              // "roof": {...}
void put_timing(nlohmann::json& out, const measure::Timing& timing);   // time_ns, time_p10_ns, time_p90_ns, runs
void put_check(nlohmann::json& out, const measure::Checked& checked);  // judgement, bound_ratio, compared, ...

}  // namespace tetrad::cli
