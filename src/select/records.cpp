#include "tetrad/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/embedded.hpp"

namespace tetrad {

namespace embedded {
std::span<const core::EmbeddedFile> record_files();
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "tetrad.records/1.0";
constexpr std::string_view kSchemaMajor = "tetrad.records/1.";

// Reads the fields of one row and keeps the first thing that is wrong with it.
class Row {
 public:
  Row(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("", "an object", json.type_name());
  }

  std::string text(const char* field, const std::optional<std::string>& otherwise = {}) {
    const Json* value = find(field, otherwise.has_value(), "text");
    if (value == nullptr) return otherwise.value_or("");
    if (!value->is_string()) {
      fail(field, "text", value->type_name());
      return {};
    }
    return value->get<std::string>();
  }

  // A number within [low, high].
  double number(const char* field, double low, double high, std::optional<double> otherwise = {}) {
    const Json* value = find(field, otherwise.has_value(), "a number");
    if (value == nullptr) return otherwise.value_or(0.0);
    const double number = value->is_number() ? value->get<double>() : low - 1.0;
    if (!(number >= low && number <= high)) {
      fail(field, fmt::format("a number from {:g} to {:g}", low, high), value->dump().substr(0, 60));
      return 0.0;
    }
    return number;
  }

  // One of an enumeration's names.
  template <class T>
  T word(const char* field, T last) {
    const std::string text_value = text(field);
    std::string known;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      const T value = static_cast<T>(i);
      if (name(value) == text_value) return value;
      known += fmt::format("{}{}", i == 0 ? "" : ", ", name(value));
    }
    if (!error_) fail(field, known, text_value);
    return T{};
  }

  void fail(std::string_view field, std::string need, std::string have) {
    if (error_) return;
    error_.emplace();
    error_->kind = ErrorKind::input;
    error_->id = "TE0510";
    error_->what = field.empty() ? "a record is malformed" : fmt::format("{} of a record is not usable", field);
    error_->where = field.empty() ? where_ : where_ + "." + std::string(field);
    error_->need = std::move(need);
    error_->have = std::move(have);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Json* find(const char* field, bool optional, std::string need) {
    if (error_) return nullptr;
    const auto found = json_.find(field);
    if (found != json_.end()) return &*found;
    if (!optional) fail(field, std::move(need), "nothing");
    return nullptr;
  }

  const Json& json_;
  std::string where_;
  std::optional<Error> error_;
};

EvidenceRecord read_evidence(Row& row, const std::string&) {
  EvidenceRecord out;
  out.kernel = row.text("kernel");
  out.evidence = row.word("evidence", Evidence::measured);
  out.digest = row.text("digest");
  out.device = row.text("device");
  out.driver = row.text("driver", "");
  out.tool_version = row.text("tool_version", "");
  out.date = row.text("date");
  out.command = row.text("command");
  out.failure = row.text("failure", "");
  return out;
}

Measurement read_measurement(Row& row, const std::string& source) {
  Measurement out;
  out.kernel = row.text("kernel");
  out.device = row.text("device");
  const std::string problem = row.text("problem");
  out.seconds = row.number("time_s", 0.0, 1e6, 0.0);
  out.ratio = row.number("ratio", 0.0, 1e9, 0.0);
  out.ratio_of = row.text("ratio_of", "");
  out.source = row.text("source", source);
  out.note = row.text("note", "");
  out.digest = row.text("digest", "");
  out.driver = row.text("driver", "");
  if (row.error()) return out;
  Result<ProblemSet> parsed = parse_problem(problem);
  if (!parsed) {
    row.fail("problem", parsed.error().need, parsed.error().have);
  } else if (parsed->m.size() != 1) {
    row.fail("problem", "one value of m", problem);
  } else {
    out.problem = parsed->base;
  }
  if ((out.seconds > 0.0) == (out.ratio > 0.0)) row.fail("time_s", "either time_s or ratio, above 0", "both or none");
  if (out.ratio > 0.0 && out.ratio_of.empty()) row.fail("ratio_of", "the kernel that the ratio refers to", "nothing");
  if (out.source.empty()) row.fail("source", "a source, in the row or for the file", "nothing");
  return out;
}

FittedCost read_cost(Row& row, const std::string& source) {
  FittedCost out;
  out.kernel = row.text("kernel");
  out.device = row.text("device");
  out.params.unit = row.word("unit", Unit::nvfp4);
  out.params.memory_efficiency = row.number("memory_efficiency", 1e-6, 1.0);
  out.params.compute_efficiency = row.number("compute_efficiency", 1e-6, 1.0);
  out.params.source = row.text("source", source);
  if (out.params.source.empty()) row.fail("source", "a source, in the row or for the file", "nothing");
  return out;
}

template <class Read, class T>
Status read_list(const Json& document, const char* key, std::string_view file, const std::string& source, Read read,
                 std::vector<T>& into) {
  const auto list = document.find(key);
  if (list == document.end()) return ok();
  std::size_t index = 0;
  Row shape(document, std::string(file));
  if (!list->is_array()) {
    shape.fail(key, "a list", list->type_name());
    return *shape.error();
  }
  for (const Json& json : *list) {
    Row row(json, fmt::format("{}: {}[{}]", file, key, index++));
    if (row.error()) return *row.error();
    T value = read(row, source);
    if (row.error()) return *row.error();
    into.push_back(std::move(value));
  }
  return ok();
}

void put(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

}  // namespace

Status read_records(std::string_view json, std::string_view file_name, Records& into) {
  const Json document = Json::parse(json, nullptr, false);
  Row head(document, std::string(file_name));
  if (document.is_discarded()) {
    Error error;
    error.kind = ErrorKind::input;
    error.id = "TE0510";
    error.what = "a records file is no JSON";
    error.where = std::string(file_name);
    error.need = "JSON, schema " + std::string(kSchema);
    error.have = json.empty() ? "an empty file" : "text that does not parse";
    return error;
  }
  const std::string schema = head.text("schema");
  if (!head.error() && schema.rfind(kSchemaMajor, 0) != 0) head.fail("schema", std::string(kSchema), schema);
  const std::string source = head.text("source", "");
  if (head.error()) return *head.error();
  Records read;
  if (Status s = read_list(document, "evidence", file_name, source, read_evidence, read.evidence); !s) return s;
  if (Status s = read_list(document, "measurements", file_name, source, read_measurement, read.measurements); !s) {
    return s;
  }
  if (Status s = read_list(document, "costs", file_name, source, read_cost, read.costs); !s) return s;
  const auto append = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(into.evidence, read.evidence);
  append(into.measurements, read.measurements);
  append(into.costs, read.costs);
  return ok();
}

std::string records_to_json(const Records& records) {
  Json document;
  document["schema"] = kSchema;
  for (const EvidenceRecord& r : records.evidence) {
    Json row{{"kernel", r.kernel}, {"evidence", name(r.evidence)}, {"digest", r.digest}, {"device", r.device}};
    put(row, "driver", r.driver);
    put(row, "tool_version", r.tool_version);
    row["date"] = r.date;
    row["command"] = r.command;
    put(row, "failure", r.failure);
    document["evidence"].push_back(std::move(row));
  }
  for (const Measurement& r : records.measurements) {
    Json row{{"kernel", r.kernel}, {"device", r.device}, {"problem", to_text(r.problem)}};
    if (r.seconds > 0.0) row["time_s"] = r.seconds;
    if (r.ratio > 0.0) row["ratio"] = r.ratio;
    put(row, "ratio_of", r.ratio_of);
    row["source"] = r.source;
    put(row, "note", r.note);
    put(row, "digest", r.digest);
    put(row, "driver", r.driver);
    document["measurements"].push_back(std::move(row));
  }
  for (const FittedCost& r : records.costs) {
    document["costs"].push_back(Json{{"kernel", r.kernel},
                                     {"device", r.device},
                                     {"unit", name(r.params.unit)},
                                     {"memory_efficiency", r.params.memory_efficiency},
                                     {"compute_efficiency", r.params.compute_efficiency},
                                     {"source", r.params.source}});
  }
  return document.dump(2) + "\n";
}

std::string_view records_schema() { return kSchema; }

void merge_records(Records& into, const Records& more) {
  const auto add = [](auto& list, const auto& item, const auto& key) {
    std::erase_if(list, [&](const auto& old) { return key(old) == key(item); });
    list.push_back(item);
  };
  for (const EvidenceRecord& record : more.evidence) {
    add(into.evidence, record,
        [](const EvidenceRecord& r) { return std::tie(r.kernel, r.digest, r.device, r.driver, r.evidence); });
  }
  for (const Measurement& measurement : more.measurements) {
    add(into.measurements, measurement, [](const Measurement& r) {
      return std::tuple(std::tie(r.kernel, r.digest, r.device, r.driver), to_text(r.problem));
    });
  }
  for (const FittedCost& cost : more.costs) {
    add(into.costs, cost, [](const FittedCost& r) { return std::tie(r.kernel, r.device); });
  }
}

Records records_here(Records records, std::string_view device, std::string_view driver) {
  const auto elsewhere = [&](const auto& record) { return record.device == device && record.driver != driver; };
  std::erase_if(records.evidence, elsewhere);
  std::erase_if(records.measurements, elsewhere);
  return records;
}

Evidence evidence_of(const Records& records, std::string_view kernel, std::string_view device, bool built,
                     std::string_view digest) {
  if (!built) return Evidence::declared;
  Evidence best = Evidence::built;
  for (const EvidenceRecord& record : records.evidence) {
    // Disassembly and emulation hold for the machine code itself; a probe and a timing only for the device they ran on.
    const bool here = record.device == device || record.evidence <= Evidence::emulated;
    if (record.kernel == kernel && here && record.digest == digest && record.failure.empty()) {
      best = std::max(best, record.evidence);
    }
  }
  return best;
}

std::string probe_failure(const Records& records, std::string_view kernel, std::string_view device,
                          std::string_view digest) {
  std::string last;
  for (const EvidenceRecord& record : records.evidence) {
    if (record.kernel == kernel && record.device == device && record.digest == digest &&
        record.evidence >= Evidence::probed) {
      last = record.failure;
    }
  }
  return last;
}

const Records& known_records() {
  static const Records records = [] {
    Records all;
    for (const core::EmbeddedFile& file : embedded::record_files()) {
      // The files are checked by a test; one that does not read adds nothing.
      [[maybe_unused]] const Status status = read_records(file.text, file.name, all);
    }
    return all;
  }();
  return records;
}

}  // namespace tetrad
