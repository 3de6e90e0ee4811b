#include "checkpoint/json_text.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/safetensors.hpp"

namespace tetrad::checkpoint {

Result<Json> parse_json(std::string_view text, const std::string& file) {
  std::size_t bad = 0;
  if (!valid_utf8(text, bad)) {
    return refuse("TE0206", "the file is not UTF-8", fmt::format("{}: byte {}", file, bad), "UTF-8",
                  fmt::format("0x{:02x}", static_cast<unsigned char>(text[bad])));
  }
  // The reader takes a zero byte for the end and would not see what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return refuse("TE0207", "the file is not JSON", fmt::format("{}: byte {}", file, zero), "a JSON object",
                  "a zero byte");
  }
  std::vector<std::set<std::string>> keys;
  try {
    // The callback can only stop the reader by throwing; the error never leaves this function.
    Json json = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > kJsonDepth) {
        throw refuse("TE0208", "the file is nested too deep", file, fmt::format("at most {} levels", kJsonDepth),
                     "more");
      }
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
        throw refuse("TE0209", "a key stands twice in the file", file, "one", parsed.dump());
      }
      return true;
    });
    if (!json.is_object()) return refuse("TE0207", "the file is no JSON object", file, "an object", json.type_name());
    return json;
  } catch (const Json::parse_error& fault) {
    return refuse("TE0207", "the file is not JSON", fmt::format("{}: byte {}", file, fault.byte), "a JSON object",
                  text.empty() ? "an empty file" : "something else from there on");
  } catch (const Json::exception& fault) {  // a number beyond double's range
    return refuse("TE0207", "the file is not JSON", file, "a JSON object", fault.what());
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace tetrad::checkpoint
