// What the files of data/devices say: origin of every value, plausible sizes, peaks that fit each other.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "tetrad/device.hpp"

namespace tetrad {
namespace {

const std::filesystem::path kFolder = TETRAD_SOURCE_DIR "/data/devices";

const DeviceProfile& device(std::string_view slug) {
  for (const DeviceProfile& one : known_devices()) {
    if (one.slug == slug) return one;
  }
  ADD_FAILURE() << "no " << slug;
  return known_devices().front();
}

TEST(Facts, EveryFileIsBuiltInAndGoesRound) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const Result<DeviceProfile> first = device_from_json(text, entry.path().string());
    ASSERT_TRUE(first) << first.error().where << ": " << first.error().what;
    const Result<DeviceProfile> second = device_from_json(device_to_json(*first), first->slug + ".json");
    ASSERT_TRUE(second) << second.error().where << ": " << second.error().what;
    EXPECT_EQ(*first, *second);
    EXPECT_EQ(*first, device(first->slug));
    files.insert(first->slug);
  }
  EXPECT_EQ(files.size(), 17u);
  EXPECT_EQ(known_devices().size(), files.size());
}

TEST(Facts, EveryValueHasItsSourceAndEveryGapItsReason) {
  for (const DeviceProfile& one : known_devices()) {
    EXPECT_FALSE(one.cc_source.empty()) << one.slug;
    for_each_fact(one, [&](std::string_view name, const auto& fact) {
      const std::string where = one.slug + " " + std::string(name);
      if (fact.known()) {
        EXPECT_FALSE(fact.source.empty()) << where;
        EXPECT_EQ(fact.source.find("not kept"), std::string::npos) << where;
        EXPECT_EQ(fact.origin, Origin::data_file) << where;
        EXPECT_GT(fact.certainty, Certainty::memory) << where;
      } else {
        EXPECT_FALSE(fact.note.empty()) << where;
        EXPECT_EQ(fact.origin, Origin::unknown) << where;
      }
    });
    for (const auto& fact : {one.sms, one.smem_per_block_optin, one.memory_bytes})
      EXPECT_TRUE(fact.known()) << one.slug;
    for (const auto& fact : {one.bandwidth_spec, one.peak_fp32, one.peak_bf16}) EXPECT_TRUE(fact.known()) << one.slug;
  }
}

TEST(Facts, SizesArePlausible) {
  for (const DeviceProfile& one : known_devices()) {
    SCOPED_TRACE(one.slug);
    EXPECT_TRUE(*one.sms.value >= 16 && *one.sms.value <= 192);
    EXPECT_EQ(*one.smem_per_sm.value - *one.smem_per_block_optin.value, 1024);
    EXPECT_EQ(*one.registers_per_sm.value, 65536);
    EXPECT_TRUE(*one.memory_bytes.value >= 16'000'000'000 && *one.memory_bytes.value <= 300'000'000'000);
    EXPECT_TRUE(*one.boost_clock_hz.value > 1e9 && *one.boost_clock_hz.value < 3e9);
    EXPECT_TRUE(*one.bandwidth_spec.value > 2e11 && *one.bandwidth_spec.value < 1e13);
    const std::int64_t l2 = one.l2_bytes.value.value_or(6 << 20);
    EXPECT_TRUE(l2 >= 6 << 20 && l2 <= 160 << 20);
    if (one.bandwidth_read.known()) {
      const double part = *one.bandwidth_read.value / *one.bandwidth_spec.value;
      EXPECT_TRUE(part > 0.8 && part < 1.0) << part;
    }
  }
}

// The tensor units double their rate from bf16 to fp8 and again to fp4; a device where they do not says why in a note.
TEST(Facts, PeaksFitEachOther) {
  for (const DeviceProfile& one : known_devices()) {
    SCOPED_TRACE(one.slug);
    const double bf16 = *one.peak_bf16.value;
    const auto near = [](double have, double need) { return std::fabs(have / need - 1.0) < 0.06; };
    if (one.peak_fp8.known()) {
      EXPECT_TRUE(near(*one.peak_fp8.value, 2.0 * bf16) || !one.peak_fp8.note.empty());
    }
    if (one.peak_int8.known()) {
      EXPECT_TRUE(near(*one.peak_int8.value, 2.0 * bf16) || !one.peak_int8.note.empty() ||
                  near(*one.peak_int8.value, 4.0 * bf16));  // GeForce: half rate for fp32 accumulation only
    }
    if (one.peak_nvfp4.known()) {
      EXPECT_TRUE(near(*one.peak_nvfp4.value, 4.0 * bf16) || !one.peak_nvfp4.note.empty());
    }
    EXPECT_EQ(one.peak_fp8.known(), one.has(Feature::mma_fp8));
    EXPECT_EQ(one.peak_nvfp4.known(), one.has(Feature::mma_nvfp4) || one.has(Feature::tcgen05));
    EXPECT_TRUE(*one.peak_fp32.value < bf16);
  }
}

TEST(Facts, WeighedContradictions) {
  EXPECT_EQ(*device("gb10").bandwidth_read.value, 232e9);
  EXPECT_NE(device("gb10").bandwidth_read.note.find("261.4"), std::string::npos);
  EXPECT_EQ(*device("rtx-pro-6000-server").bandwidth_spec.value, 1597e9);
  EXPECT_NE(device("rtx-pro-6000-server").bandwidth_spec.note.find("1792"), std::string::npos);
  EXPECT_EQ(*device("h200").bandwidth_read.value, 4470e9);
  EXPECT_EQ(device("h200").bandwidth_read.certainty, Certainty::measured_here);
  EXPECT_EQ(device("gb10").bandwidth().value, 232e9);
  EXPECT_EQ(device("rtx-pro-6000").bandwidth().value, 1792e9);
}

// reference: NVIDIA/cccl arch_traits.h
TEST(Facts, SharedMemoryFollowsTheCapability) {
  for (const DeviceProfile& one : known_devices()) {
    const bool small = one.cc.major == 12 || one.cc == ComputeCapability{8, 6} || one.cc == ComputeCapability{8, 9};
    const std::int64_t need = one.cc == ComputeCapability{8, 0} ? 166912 : small ? 101376 : 232448;
    EXPECT_EQ(*one.smem_per_block_optin.value, need) << one.slug;
  }
}

TEST(Facts, FeaturesByCapability) {
  const auto names = [](ComputeCapability cc) {
    std::string out;
    for (const Feature feature : features_of(cc)) out += std::string(name(feature)) + " ";
    return out;
  };
  EXPECT_EQ(names({7, 5}), "");
  EXPECT_EQ(names({8, 0}), "cp_async mma_bf16 ");
  EXPECT_EQ(names({8, 6}), "cp_async mma_bf16 ");
  EXPECT_EQ(names({8, 9}), "cp_async mma_bf16 mma_fp8 ");
  EXPECT_EQ(names({9, 0}), "cp_async mma_bf16 mma_fp8 tma wgmma ");
  EXPECT_EQ(names({10, 3}), "cp_async mma_bf16 mma_fp8 tma tcgen05 cvt_e2m1 ");
  EXPECT_EQ(names({11, 0}), "cp_async mma_bf16 mma_fp8 tma tcgen05 cvt_e2m1 ");
  EXPECT_EQ(names({12, 1}), "cp_async mma_bf16 mma_fp8 tma mma_nvfp4 cvt_e2m1 ");
}

}  // namespace
}  // namespace tetrad
