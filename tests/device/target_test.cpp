#include "tetrad/target.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tetrad/device.hpp"

namespace tetrad {
namespace {

const std::string kGolden = TETRAD_SOURCE_DIR "/tests/device/loads_on.golden.txt";

const std::vector<std::string> kTargets = {
    "cpu",         "80",           "86",           "87",           "89",           "90",           "90a",
    "100",         "100a",         "100f",         "101",          "101a",         "101f",         "103",
    "103a",        "103f",         "110",          "110a",         "110f",         "120",          "120a",
    "120f",        "121",          "121a",         "121f",         "compute_80",   "compute_89",   "compute_90",
    "compute_90a", "compute_100",  "compute_100a", "compute_100f", "compute_103f", "compute_110",  "compute_110f",
    "compute_120", "compute_120a", "compute_120f", "compute_121",  "compute_121a", "compute_121f",
};

// One row per target, one column per device: "yes", "jit" (the driver compiles PTX) or "-".
std::string table() {
  std::vector<DeviceProfile> columns = known_devices();
  columns.push_back(host_device());
  std::string out = fmt::format("{:<13}", "target");
  for (const DeviceProfile& device : columns) out += fmt::format(" {}", device.slug);
  out += "\n" + fmt::format("{:<13}", "");
  for (const DeviceProfile& device : columns) {
    const std::string cc = device.host ? "-" : fmt::format("{}.{}", device.cc.major, device.cc.minor);
    out += fmt::format(" {:<{}}", cc, device.slug.size());
  }
  out += "\n";
  for (const std::string& text : kTargets) {
    out += fmt::format("{:<13}", text);
    for (const DeviceProfile& device : columns) {
      const LoadVerdict verdict = loads_on(*parse_target(text), device.cc);
      out += fmt::format(" {:<{}}", verdict.jit ? "jit" : verdict.loads ? "yes" : "-", device.slug.size());
    }
    out += "\n";
  }
  std::string trimmed;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) trimmed += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return trimmed;
}

TEST(LoadsOn, GoldenTable) {
  const std::string have = table();
  if (std::getenv("TETRAD_BLESS") != nullptr) std::ofstream(kGolden) << have;
  std::ifstream file(kGolden);
  const std::string need{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(need, have);
}

LoadVerdict loads(std::string_view target, ComputeCapability device) { return loads_on(*parse_target(target), device); }

// The rules one by one, from the CUDA programming guide, so that a wrong golden table cannot be blessed.
TEST(LoadsOn, MachineCodeLoadsWithinItsMajorUpwards) {
  EXPECT_TRUE(loads("80", {8, 9}).loads);
  EXPECT_TRUE(loads("86", {8, 9}).loads);
  EXPECT_TRUE(loads("120", {12, 1}).loads);
  EXPECT_FALSE(loads("121", {12, 0}).loads);
  EXPECT_FALSE(loads("89", {9, 0}).loads);
  EXPECT_FALSE(loads("100", {12, 0}).loads);
  EXPECT_FALSE(loads("90", {8, 9}).loads);
  EXPECT_FALSE(loads("120", {12, 1}).jit);
}

TEST(LoadsOn, JetsonCodeStaysApart) {
  EXPECT_FALSE(loads("87", {8, 9}).loads);
  EXPECT_FALSE(loads("86", {8, 7}).loads);
  EXPECT_TRUE(loads("87", {8, 7}).loads);
  EXPECT_FALSE(loads("101", {10, 3}).loads);
  EXPECT_FALSE(loads("100", {10, 1}).loads);
  EXPECT_TRUE(loads("compute_87", {8, 9}).jit);
}

TEST(LoadsOn, ArchCodeIsExact) {
  EXPECT_TRUE(loads("90a", {9, 0}).loads);
  EXPECT_FALSE(loads("120a", {12, 1}).loads);
  EXPECT_FALSE(loads("100a", {10, 3}).loads);
  EXPECT_TRUE(loads("compute_90a", {9, 0}).jit);
  EXPECT_FALSE(loads("compute_90a", {10, 0}).loads);
  EXPECT_FALSE(loads("compute_120a", {12, 1}).loads);
}

TEST(LoadsOn, FamilyTableOfTheGuide) {
  EXPECT_TRUE(loads("100f", {10, 0}).loads);
  EXPECT_TRUE(loads("100f", {10, 3}).loads);
  EXPECT_FALSE(loads("100f", {10, 1}).loads);
  EXPECT_FALSE(loads("100f", {11, 0}).loads);
  EXPECT_FALSE(loads("103f", {10, 0}).loads);
  EXPECT_TRUE(loads("103f", {10, 3}).loads);
  EXPECT_TRUE(loads("110f", {11, 0}).loads);
  EXPECT_FALSE(loads("101f", {11, 0}).loads);
  EXPECT_TRUE(loads("120f", {12, 0}).loads);
  EXPECT_TRUE(loads("120f", {12, 1}).loads);
  EXPECT_FALSE(loads("121f", {12, 0}).loads);
  EXPECT_TRUE(loads("compute_120f", {12, 1}).jit);
  EXPECT_FALSE(loads("compute_120f", {10, 0}).loads);
}

TEST(LoadsOn, PtxGoesUpOnly) {
  EXPECT_TRUE(loads("compute_80", {12, 1}).jit);
  EXPECT_TRUE(loads("compute_100", {12, 0}).jit);
  EXPECT_FALSE(loads("compute_120", {10, 3}).loads);
  EXPECT_FALSE(loads("compute_121", {12, 0}).loads);
}

TEST(LoadsOn, HostAndGpuApart) {
  EXPECT_TRUE(loads("cpu", {}).loads);
  EXPECT_FALSE(loads("cpu", {12, 1}).loads);
  EXPECT_FALSE(loads("compute_80", {}).loads);
}

TEST(LoadsOn, EveryVerdictSaysWhyInOneLine) {
  for (const std::string& text : kTargets) {
    for (const DeviceProfile& device : known_devices()) {
      const std::string why = loads(text, device.cc).why;
      EXPECT_GT(why.size(), 20u) << text << ' ' << device.slug;
      EXPECT_EQ(why.find('\n'), std::string::npos);
      EXPECT_NE(why.back(), '.');
      EXPECT_FALSE(why.front() >= 'A' && why.front() <= 'Z');
    }
  }
  EXPECT_EQ(loads("120a", {12, 1}).why, "built for 12.0a, the device is 12.1: 'a' code runs on exactly 12.0");
}

TEST(ParseTarget, TextGoesRound) {
  for (const std::string& text : kTargets) {
    const Result<Target> target = parse_target(text);
    ASSERT_TRUE(target) << text;
    EXPECT_EQ(to_text(*target), text);
  }
  EXPECT_EQ(to_text(*parse_target("sm_90a")), "90a");
  EXPECT_EQ(*parse_target("sm_121"), (Target{Target::Kind::plain, {12, 1}}));
  EXPECT_EQ(*parse_target("compute_100f"), (Target{Target::Kind::ptx_family, {10, 0}}));
}

TEST(ParseTarget, RefusesTheRest) {
  for (const std::string_view text :
       {"",      "8",    "sm_", "compute_", "sm_9", "1200",        "012",         "12.1",
        "90b",   "90af", "80a", "89a",      "90f",  "compute_89a", "compute_90f", "sm_compute_90",
        "SM_90", " 90",  "90 ", "-90",      "gpu",  "9a",          "\xff\n"}) {
    const Result<Target> target = parse_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(target.error().id, "TE0309");
    EXPECT_FALSE(target.error().need.empty());
    EXPECT_EQ(target.error().have.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace tetrad
