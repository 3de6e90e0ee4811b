// Small JSON files beside the tensors (internal): index, config.json, hf_quant_config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tetrad/error.hpp"

namespace tetrad::checkpoint {

// Keys sorted: the kind that keeps the file's order looks every key up in a list, which a long index makes quadratic.
using Json = nlohmann::json;

inline constexpr int kJsonDepth = 64;

// Parses a JSON object. Errors: TE0206 (not UTF-8), TE0207 (not JSON, not an object), TE0208
// (deeper than kJsonDepth), TE0209 (a key twice in one object).
Result<Json> parse_json(std::string_view text, const std::string& file);

}  // namespace tetrad::checkpoint
