// JSON <-> profile, schema "tetrad.device/1.0".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "core/text.hpp"
#include "device/quote.hpp"
#include "tetrad/device.hpp"

namespace tetrad {
namespace {

using device::quote;
using Json = nlohmann::json;

constexpr std::string_view kSchema = "tetrad.device/1.0";
constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxName = 128;
constexpr std::size_t kMaxSlug = 64;
constexpr std::size_t kMaxAliases = 32;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;  // whole numbers up to here survive every JSON reader
constexpr double kMaxRate = 1e21;

// Thrown and caught inside this file only: a field deep in the document ends the reading.
struct Refused {
  Error error;
};

std::string shown(const Json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  if (value.is_object() || value.is_array()) return value.is_object() ? "an object" : "an array";
  return value.dump();
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  DeviceProfile read(std::string_view text) const {
    const Json root = parse(text);
    if (!root.is_object()) refuse("TE0305", "not a device", "", "an object", shown(root));
    const std::string schema = string_of(root, "", "schema", kMaxName);
    if (schema != kSchema) refuse("TE0303", "unknown schema", "schema", std::string(kSchema), quote(schema));
    allow(root, "",
          {"schema", "name", "slug", "aliases", "host", "compute_capability", "compute_capability_source", "features",
           "facts"});

    DeviceProfile device;
    device.name = string_of(root, "", "name", kMaxName);
    device.slug = string_of(root, "", "slug", kMaxSlug);
    check_slug("slug", device.slug);
    check_stem(device.slug);
    if (const Json* aliases = list_of(root, "aliases", kMaxAliases)) {
      for (const Json& alias : *aliases) {
        if (!alias.is_string()) refuse("TE0305", "ill-typed field", "aliases", "strings", shown(alias));
        device.aliases.push_back(alias.get<std::string>());
        check_slug("aliases", device.aliases.back());
      }
    }
    if (root.contains("host")) {
      if (!root["host"].is_boolean()) refuse("TE0305", "ill-typed field", "host", "true or false", shown(root["host"]));
      device.host = root["host"].get<bool>();
    }
    if (device.host) {
      read_cpu(root, device);
    } else {
      read_gpu(root, device);
    }
    read_facts(root, device);
    return device;
  }

 private:
  [[noreturn]] void refuse(std::string id, std::string what, std::string field, std::string need, std::string have,
                           std::string hint = "") const {
    Error error;
    error.kind = ErrorKind::input;
    error.id = std::move(id);
    error.what = std::move(what);
    error.where = field.empty() ? std::string(file_) : fmt::format("{}, field {}", file_, field);
    error.need = std::move(need);
    error.have = std::move(have);
    error.hint = std::move(hint);
    throw Refused{std::move(error)};
  }

  Json parse(std::string_view text) const {
    if (text.size() > kMaxBytes) {
      refuse("TE0308", "device file too large", "", fmt::format("at most {} bytes", kMaxBytes),
             fmt::format("{} bytes", text.size()));
    }
    std::vector<std::set<std::string>> open;  // keys of the objects that are being read
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      using Event = Json::parse_event_t;
      if (depth > kMaxDepth) {
        refuse("TE0308", "device file nested too deep", "", fmt::format("at most {} levels", kMaxDepth), "more");
      }
      if (event == Event::object_start) open.emplace_back();
      if (event == Event::object_end) open.pop_back();
      if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second) {
        refuse("TE0311", "repeated field", quote(parsed.get<std::string>()), "each field once", "twice");
      }
      return true;
    };
    try {
      return Json::parse(text.begin(), text.end(), watch);
    } catch (const Json::parse_error& error) {
      refuse("TE0302", "not a JSON document", "", "JSON in UTF-8",
             fmt::format("a syntax error at byte {}", error.byte));
    } catch (const Json::exception&) {
      refuse("TE0302", "not a JSON document", "", "JSON in UTF-8", "a number that no double holds");
    }
  }

  void allow(const Json& object, const std::string& field, std::initializer_list<std::string_view> names) const {
    const std::vector<std::string> known(names.begin(), names.end());
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) refuse_unknown(key, field, known);
    }
  }

  [[noreturn]] void refuse_unknown(const std::string& key, const std::string& field,
                                   const std::vector<std::string>& known) const {
    refuse("TE0304", "unknown field " + quote(key), field, fmt::format("one of {}", fmt::join(known, ", ")), quote(key),
           core::did_you_mean(key, known));
  }

  std::string string_of(const Json& object, const std::string& path, const char* key, std::size_t most) const {
    const std::string field = path.empty() ? key : path + "." + key;
    const auto at = object.find(key);
    if (at == object.end()) refuse("TE0305", "missing field", field, "a string", "nothing");
    if (!at->is_string()) refuse("TE0305", "ill-typed field", field, "a string", shown(*at));
    const std::string& text = at->get_ref<const std::string&>();
    if (text.empty() || text.size() > most) {
      refuse("TE0306", "text of a wrong length", field, fmt::format("1 to {} bytes", most),
             fmt::format("{}", text.size()));
    }
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
      refuse("TE0306", "text with control characters", field, "printable text", quote(text));
    }
    return text;
  }

  const Json* list_of(const Json& object, const char* key, std::size_t most) const {
    const auto at = object.find(key);
    if (at == object.end()) return nullptr;
    if (!at->is_array()) refuse("TE0305", "ill-typed field", key, "an array", shown(*at));
    if (at->size() > most) {
      refuse("TE0306", "list too long", key, fmt::format("at most {}", most), fmt::format("{}", at->size()));
    }
    return &*at;
  }

  void check_slug(const char* field, const std::string& slug) const {
    const bool letters = std::all_of(
        slug.begin(), slug.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
    if (!letters || slug.empty() || slug.size() > kMaxSlug || slug.front() == '-') {
      refuse("TE0306", "not a slug", field, "lower-case letters, digits and '-'", quote(slug));
    }
  }

  void check_stem(const std::string& slug) const {
    if (!file_.ends_with(".json")) return;
    std::string_view stem = file_.substr(0, file_.size() - 5);
    if (const std::size_t slash = stem.find_last_of('/'); slash != std::string_view::npos)
      stem.remove_prefix(slash + 1);
    if (stem != slug) refuse("TE0312", "slug and file name differ", "slug", quote(stem), quote(slug));
  }

  void read_gpu(const Json& root, DeviceProfile& device) const {
    if (root.contains("features")) {
      refuse("TE0304", "a gpu's features follow from its capability", "features", "no such field",
             shown(root["features"]));
    }
    const std::string text = string_of(root, "", "compute_capability", kMaxName);
    const std::size_t dot = text.find('.');
    long long major = 0;
    long long minor = 0;
    if (dot == std::string::npos || !core::parse_int(std::string_view(text).substr(0, dot), major) ||
        !core::parse_int(std::string_view(text).substr(dot + 1), minor) || major < 1 || major > 99 || minor < 0 ||
        minor > 9 || text != fmt::format("{}.{}", major, minor)) {
      refuse("TE0306", "not a compute capability", "compute_capability", "a text like \"12.1\"", quote(text));
    }
    device.cc = {static_cast<int>(major), static_cast<int>(minor)};
    device.cc_source = string_of(root, "", "compute_capability_source", kMaxText);
    device.features = features_of(device.cc);
  }

  void read_cpu(const Json& root, DeviceProfile& device) const {
    for (const char* field : {"compute_capability", "compute_capability_source"}) {
      if (root.contains(field)) refuse("TE0304", "a cpu has no such field", field, "no such field", shown(root[field]));
    }
    constexpr std::array<Feature, 3> kHost = {Feature::host_avx2, Feature::host_avx512, Feature::host_vnni};
    const Json* features = list_of(root, "features", kHost.size());
    if (!features) refuse("TE0305", "missing field", "features", "an array", "nothing");
    for (const Json& item : *features) {
      const auto at = std::find_if(kHost.begin(), kHost.end(), [&](Feature feature) {
        return item.is_string() && item.get_ref<const std::string&>() == name(feature);
      });
      if (at == kHost.end()) {
        refuse("TE0306", "not a feature of a cpu", "features", "host_avx2, host_avx512 or host_vnni", shown(item));
      }
      if (device.has(*at)) refuse("TE0311", "repeated feature", "features", "each feature once", shown(item));
      device.features.push_back(*at);
    }
  }

  void read_facts(const Json& root, DeviceProfile& device) const {
    const auto facts = root.find("facts");
    if (facts == root.end()) refuse("TE0305", "missing field", "facts", "an object", "nothing");
    if (!facts->is_object()) refuse("TE0305", "ill-typed field", "facts", "an object", shown(*facts));
    std::vector<std::string> known;
    for_each_fact(device, [&](std::string_view key, auto& fact) {
      known.emplace_back(key);
      if (const auto at = facts->find(known.back()); at != facts->end()) read_fact(*at, "facts." + known.back(), fact);
    });
    for (const auto& [key, value] : facts->items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) refuse_unknown(key, "facts", known);
    }
    if (device.smem_per_sm.known() && device.smem_per_block_optin.known() &&
        *device.smem_per_block_optin.value > *device.smem_per_sm.value) {
      refuse("TE0306", "a block's shared memory above its SM's", "facts.smem_per_block_optin_bytes",
             fmt::format("at most {}", *device.smem_per_sm.value),
             fmt::format("{}", *device.smem_per_block_optin.value));
    }
  }

  template <class T>
  void read_fact(const Json& json, const std::string& field, Fact<T>& fact) const {
    if (!json.is_object()) refuse("TE0305", "ill-typed field", field, "an object", shown(json));
    allow(json, field, {"value", "source", "certainty", "note", "origin"});
    if (!json.contains("value")) refuse("TE0305", "missing field", field + ".value", "a value or null", "nothing");
    if (json.contains("note")) fact.note = string_of(json, field, "note", kMaxText);
    if (json["value"].is_null()) {
      for (const char* key : {"source", "certainty", "origin"}) {
        if (json.contains(key)) {
          refuse("TE0307", "an unknown value has no origin", field + "." + key, "a note that says why",
                 shown(json[key]));
        }
      }
      if (fact.note.empty())
        refuse("TE0307", "an unknown value without a note", field, "a note that says why", "nothing");
      return;
    }
    read_value(json["value"], field + ".value", fact.value);
    if (!json.contains("source")) refuse("TE0307", "a value without a source", field, "a source", "nothing");
    fact.source = string_of(json, field, "source", kMaxText);
    fact.certainty = one_of(json, field, "certainty",
                            std::array{Certainty::memory, Certainty::listed, Certainty::third_party_measured,
                                       Certainty::vendor, Certainty::measured_here});
    fact.origin = Origin::data_file;
    if (json.contains("origin")) {
      fact.origin = one_of(json, field, "origin", std::array{Origin::data_file, Origin::driver, Origin::measured});
    }
  }

  void read_value(const Json& json, const std::string& field, std::optional<std::int64_t>& value) const {
    if (!json.is_number_integer()) refuse("TE0305", "ill-typed field", field, "a whole number", shown(json));
    const bool large = json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxCount);
    if (large || json.get<std::int64_t>() < 1) {
      refuse("TE0306", "value out of range", field, fmt::format("1 to {}", kMaxCount), shown(json));
    }
    value = json.get<std::int64_t>();
  }

  void read_value(const Json& json, const std::string& field, std::optional<double>& value) const {
    if (!json.is_number()) refuse("TE0305", "ill-typed field", field, "a number", shown(json));
    const auto number = json.get<double>();
    if (!(number > 0.0 && number <= kMaxRate)) {
      refuse("TE0306", "value out of range", field, fmt::format("above 0, at most {:g}", kMaxRate), shown(json));
    }
    value = number;
  }

  void read_value(const Json& json, const std::string& field, std::optional<bool>& value) const {
    if (!json.is_boolean()) refuse("TE0305", "ill-typed field", field, "true or false", shown(json));
    value = json.get<bool>();
  }

  template <class Enum, std::size_t N>
  Enum one_of(const Json& object, const std::string& path, const char* key, const std::array<Enum, N>& values) const {
    const std::string text = string_of(object, path, key, kMaxName);
    std::vector<std::string> names;
    for (const Enum value : values) {
      names.emplace_back(name(value));
      if (names.back() == text) return value;
    }
    refuse("TE0306", fmt::format("unknown {}", key), path + "." + key, fmt::format("one of {}", fmt::join(names, ", ")),
           quote(text), core::did_you_mean(text, names));
  }

  std::string_view file_;
};

}  // namespace

Result<DeviceProfile> device_from_json(std::string_view json, std::string_view file_name) {
  try {
    return Reader(file_name).read(json);
  } catch (Refused& refused) {
    return std::move(refused.error);
  }
}

std::string device_to_json(const DeviceProfile& device) {
  using Ordered = nlohmann::ordered_json;
  Ordered root;
  root["schema"] = kSchema;
  root["name"] = device.name;
  root["slug"] = device.slug;
  root["aliases"] = device.aliases;
  if (device.host) {
    root["host"] = true;
    root["features"] = Ordered::array();
    for (const Feature feature : device.features) root["features"].push_back(name(feature));
  } else {
    root["compute_capability"] = fmt::format("{}.{}", device.cc.major, device.cc.minor);
    root["compute_capability_source"] = device.cc_source;
  }
  root["facts"] = Ordered::object();
  for_each_fact(device, [&](std::string_view key, const auto& fact) {
    if (!fact.known() && fact.note.empty()) return;
    Ordered& out = root["facts"][std::string(key)];
    if (fact.known()) {
      out["value"] = *fact.value;
      out["source"] = fact.source;
      out["certainty"] = name(fact.certainty);
      if (fact.origin != Origin::data_file) out["origin"] = name(fact.origin);
    } else {
      out["value"] = nullptr;
    }
    if (!fact.note.empty()) out["note"] = fact.note;
  });
  return root.dump(2) + "\n";
}

}  // namespace tetrad
