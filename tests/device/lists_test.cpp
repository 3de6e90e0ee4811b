#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tetrad/device.hpp"

namespace tetrad {
namespace {

TEST(KnownDevices, SortedBySlug) {
  const std::vector<DeviceProfile>& devices = known_devices();
  EXPECT_TRUE(std::is_sorted(devices.begin(), devices.end(),
                             [](const DeviceProfile& a, const DeviceProfile& b) { return a.slug < b.slug; }));
}

TEST(FindDevice, BySlugAliasAndName) {
  for (const DeviceProfile& device : known_devices()) {
    std::vector<std::string> words = device.aliases;
    words.push_back(device.slug);
    words.push_back(device.name);
    for (const std::string& word : words) {
      const Result<DeviceProfile> found = find_device(word);
      ASSERT_TRUE(found) << word;
      EXPECT_EQ(found->slug, device.slug) << word;
    }
  }
  EXPECT_EQ(find_device("DGX-Spark")->slug, "gb10");
  EXPECT_EQ(find_device("nvidia gb10")->slug, "gb10");
  EXPECT_TRUE(find_device("host")->host);
  EXPECT_TRUE(find_device("cpu")->host);
}

TEST(FindDevice, UnknownWithTheNearest) {
  const Result<DeviceProfile> found = find_device("gb1O");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().id, "TE0301");
  EXPECT_EQ(found.error().kind, ErrorKind::input);
  EXPECT_NE(found.error().hint.find("'gb10'"), std::string::npos) << found.error().hint;
  EXPECT_NE(found.error().hint.find("tetrad devices"), std::string::npos);
  EXPECT_FALSE(find_device(""));
  EXPECT_FALSE(find_device(std::string(100000, 'x')));
}

class LoadDevices : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("tetrad_devices_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const DeviceProfile& device) const {
    std::ofstream(folder_ / (device.slug + ".json")) << device_to_json(device);
  }
  Result<std::vector<DeviceProfile>> load() const { return load_devices(folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(LoadDevices, ReplacesAndAdds) {
  DeviceProfile changed = *find_device("gb10");
  changed.sms.value = 47;
  write(changed);
  DeviceProfile added = changed;
  added.slug = "gb10-lab";
  added.aliases = {};
  write(added);
  std::ofstream(folder_ / "readme.txt") << "no device";
  const auto devices = load();
  ASSERT_TRUE(devices) << devices.error().what;
  EXPECT_EQ(devices->size(), known_devices().size() + 1);
  EXPECT_EQ(*find_device("gb10", *devices)->sms.value, 47);
  EXPECT_EQ(find_device("gb10-lab", *devices)->slug, "gb10-lab");
  EXPECT_EQ(*find_device("gb10")->sms.value, 48);
}

TEST_F(LoadDevices, OneWordForTwoDevices) {
  DeviceProfile other = *find_device("gb10");
  other.slug = "other";
  write(other);
  const auto devices = load();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().id, "TE0313");
}

TEST_F(LoadDevices, BadFilesAreNamed) {
  std::ofstream(folder_ / "bad.json") << "{";
  const auto devices = load();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().id, "TE0302");
  EXPECT_NE(devices.error().where.find("bad.json"), std::string::npos);
  std::filesystem::remove(folder_ / "bad.json");
  std::filesystem::create_directory(folder_ / "folder.json");
  EXPECT_EQ(load().error().id, "TE0310");
  EXPECT_EQ(load_devices((folder_ / "none").string()).error().id, "TE0310");
}

}  // namespace
}  // namespace tetrad
