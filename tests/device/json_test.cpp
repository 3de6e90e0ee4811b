#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tetrad/device.hpp"

namespace tetrad {
namespace {

using Json = nlohmann::json;

Json valid() {
  return Json::parse(R"({
    "schema": "tetrad.device/1.0", "name": "Test GPU", "slug": "test", "aliases": ["test-1"],
    "compute_capability": "12.1", "compute_capability_source": "a page",
    "facts": {
      "sms": {"value": 48, "source": "a page", "certainty": "vendor"},
      "smem_per_sm_bytes": {"value": 102400, "source": "a page", "certainty": "vendor"},
      "smem_per_block_optin_bytes": {"value": 101376, "source": "a page", "certainty": "vendor"},
      "bandwidth_read_bytes_per_s": {"value": 2.32e11, "source": "a run", "certainty": "third_party_measured", "note": "once"},
      "peak_nvfp4_flop_per_s": {"value": null, "note": "not found"},
      "unified_memory": {"value": true, "source": "a page", "certainty": "listed"}
    }})");
}

Error refused(const std::string& text) {
  const Result<DeviceProfile> device = device_from_json(text, "test.json");
  EXPECT_FALSE(device) << text.substr(0, 200);
  return device ? Error{} : device.error();
}

// Sets one place of the valid document and expects one error there.
void expect_error(const std::string& pointer, const Json& value, const std::string& id, const std::string& where) {
  Json document = valid();
  document[Json::json_pointer(pointer)] = value;
  const Error error = refused(document.dump());
  EXPECT_EQ(error.id, id) << pointer;
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_NE(error.where.find(where), std::string::npos) << pointer << ": " << error.where;
  EXPECT_NE(error.where.find("test.json"), std::string::npos);
  EXPECT_FALSE(error.need.empty()) << pointer;
  EXPECT_FALSE(error.have.empty()) << pointer;
}

void expect_missing(const std::string& parent, const std::string& key, const std::string& id) {
  Json document = valid();
  document[Json::json_pointer(parent)].erase(key);
  EXPECT_EQ(refused(document.dump()).id, id) << parent << ' ' << key;
}

TEST(DeviceJson, ReadsWhatIsWritten) {
  const Result<DeviceProfile> device = device_from_json(valid().dump(), "test.json");
  ASSERT_TRUE(device) << device.error().what;
  EXPECT_EQ(device->name, "Test GPU");
  EXPECT_EQ(device->aliases, std::vector<std::string>{"test-1"});
  EXPECT_EQ(device->cc, (ComputeCapability{12, 1}));
  EXPECT_TRUE(device->has(Feature::mma_nvfp4));
  EXPECT_EQ(*device->sms.value, 48);
  EXPECT_EQ(device->sms.origin, Origin::data_file);
  EXPECT_EQ(*device->bandwidth().value, 2.32e11);
  EXPECT_EQ(device->bandwidth_read.note, "once");
  EXPECT_FALSE(device->peak(Unit::nvfp4).known());
  EXPECT_EQ(device->peak(Unit::nvfp4).note, "not found");
  EXPECT_FALSE(device->l2_bytes.known());
  const Result<DeviceProfile> again = device_from_json(device_to_json(*device), "test.json");
  ASSERT_TRUE(again);
  EXPECT_EQ(*device, *again);
}

TEST(DeviceJson, RefusesNoJson) {
  const std::string text = valid().dump();
  for (const std::string& bad : {std::string(), std::string("{"), text.substr(0, text.size() / 2), text + "x",
                                 std::string("{\"name\": \"\xff\"}"), std::string("nul"), std::string(1, '\0')}) {
    EXPECT_EQ(refused(bad).id, "TE0302") << bad;
  }
  EXPECT_EQ(refused("[1e999]").id, "TE0302");
  EXPECT_EQ(refused("[]").id, "TE0305");
  EXPECT_EQ(refused("3").id, "TE0305");
}

TEST(DeviceJson, CapsSizeAndDepth) {
  EXPECT_EQ(refused(std::string((1 << 20) + 1, ' ')).id, "TE0308");
  EXPECT_EQ(refused(std::string(100000, '[')).id, "TE0308");
  EXPECT_EQ(refused("{\"facts\":" + std::string(20, '[') + std::string(20, ']') + "}").id, "TE0308");
}

TEST(DeviceJson, RefusesRepeatedFields) {
  std::string text = valid().dump();
  text.insert(1, "\"name\": \"Other\", ");
  EXPECT_EQ(refused(text).id, "TE0311");
}

TEST(DeviceJson, RefusesUnknownFieldsWithTheNearest) {
  expect_error("/nme", "x", "TE0304", "test.json");
  expect_error("/facts/smss", Json::object(), "TE0304", "facts");
  expect_error("/facts/sms/valeu", 1, "TE0304", "facts.sms");
  expect_error("/features", Json::array(), "TE0304", "features");
  Json document = valid();
  document["facts"]["l2_byte"] = Json::object();
  EXPECT_NE(refused(document.dump()).hint.find("'l2_bytes'"), std::string::npos);
}

TEST(DeviceJson, RefusesMissingAndIllTypedFields) {
  expect_error("/schema", "tetrad.device/2.0", "TE0303", "schema");
  expect_error("/name", 3, "TE0305", "name");
  expect_error("/aliases", "x", "TE0305", "aliases");
  expect_error("/aliases/0", 1, "TE0305", "aliases");
  expect_error("/host", 1, "TE0305", "host");
  expect_error("/facts", 1, "TE0305", "facts");
  expect_error("/facts/sms", 48, "TE0305", "facts.sms");
  expect_error("/facts/sms/value", "48", "TE0305", "facts.sms.value");
  expect_error("/facts/sms/value", 48.0, "TE0305", "facts.sms.value");
  expect_error("/facts/bandwidth_read_bytes_per_s/value", true, "TE0305", "facts.bandwidth_read_bytes_per_s.value");
  expect_error("/facts/unified_memory/value", 1, "TE0305", "facts.unified_memory.value");
  for (const char* key : {"schema", "name", "slug", "compute_capability", "compute_capability_source", "facts"}) {
    expect_missing("", key, "TE0305");
  }
  expect_missing("/facts/sms", "value", "TE0305");
  expect_missing("/facts/sms", "certainty", "TE0305");
}

TEST(DeviceJson, RefusesValuesOutOfRange) {
  for (const Json& bad : {Json(0), Json(-1), Json(std::int64_t{1} << 54), Json(~std::uint64_t{0})}) {
    expect_error("/facts/sms/value", bad, "TE0306", "facts.sms.value");
  }
  expect_error("/facts/bandwidth_read_bytes_per_s/value", 0.0, "TE0306", "bandwidth");
  expect_error("/facts/bandwidth_read_bytes_per_s/value", -1e9, "TE0306", "bandwidth");
  expect_error("/facts/bandwidth_read_bytes_per_s/value", 1e30, "TE0306", "bandwidth");
  expect_error("/facts/sms/certainty", "sure", "TE0306", "facts.sms.certainty");
  expect_error("/facts/sms/certainty", "unknown", "TE0306", "facts.sms.certainty");
  expect_error("/facts/sms/origin", "unknown", "TE0306", "facts.sms.origin");
  expect_error("/facts/smem_per_block_optin_bytes/value", 102401, "TE0306", "smem_per_block_optin_bytes");
  for (const char* bad : {"12", "12.", ".1", "12.10", "0.9", "012.1", "12.1a", "-1.0", "100.0"}) {
    expect_error("/compute_capability", bad, "TE0306", "compute_capability");
  }
  expect_error("/name", "", "TE0306", "name");
  expect_error("/name", "a\nb", "TE0306", "name");
  expect_error("/name", std::string(200, 'x'), "TE0306", "name");
  expect_error("/aliases/0", "UPPER", "TE0306", "aliases");
  expect_error("/slug", "../x", "TE0306", "slug");
}

TEST(DeviceJson, NoValueWithoutSourceAndNoGapWithoutReason) {
  expect_missing("/facts/sms", "source", "TE0307");
  expect_missing("/facts/peak_nvfp4_flop_per_s", "note", "TE0307");
  expect_error("/facts/peak_nvfp4_flop_per_s/source", "a page", "TE0307", "peak_nvfp4");
  expect_error("/facts/sms/source", "", "TE0306", "facts.sms.source");
}

TEST(DeviceJson, SlugIsTheStem) {
  expect_error("/slug", "other", "TE0312", "slug");
  EXPECT_TRUE(device_from_json(valid().dump(), "folder/test.json"));
  EXPECT_TRUE(device_from_json(valid().dump(), "standard input"));
}

TEST(DeviceJson, ACpuHasFeaturesAndNoCapability) {
  Json document = valid();
  document["host"] = true;
  EXPECT_EQ(refused(document.dump()).id, "TE0304");
  document.erase("compute_capability");
  document.erase("compute_capability_source");
  EXPECT_EQ(refused(document.dump()).id, "TE0305");
  document["features"] = {"tma"};
  EXPECT_EQ(refused(document.dump()).id, "TE0306");
  document["features"] = {"host_avx2", "host_avx2"};
  EXPECT_EQ(refused(document.dump()).id, "TE0311");
  document["features"] = {"host_avx2"};
  const Result<DeviceProfile> device = device_from_json(document.dump(), "test.json");
  ASSERT_TRUE(device) << device.error().what;
  EXPECT_EQ(device->features, std::vector<Feature>{Feature::host_avx2});
}

}  // namespace
}  // namespace tetrad
