#include <gtest/gtest.h>

#include "tetrad/device.hpp"

namespace tetrad {
namespace {

TEST(HostDevice, KnowsItselfAndSaysWhatItDoesNotKnow) {
  const DeviceProfile host = host_device();
  EXPECT_TRUE(host.host);
  EXPECT_EQ(host.slug, "host");
  EXPECT_EQ(host.cc, ComputeCapability{});
  EXPECT_FALSE(host.name.empty());
  ASSERT_TRUE(host.sms.known());
  EXPECT_GE(*host.sms.value, 1);
  EXPECT_FALSE(host.bandwidth_read.known());
  EXPECT_FALSE(host.peak_fp32.known());
  for_each_fact(host, [](std::string_view name, const auto& fact) {
    EXPECT_TRUE(fact.known() ? !fact.source.empty() && fact.origin == Origin::driver : !fact.note.empty()) << name;
  });
#if defined(__linux__)
  ASSERT_TRUE(host.memory_bytes.known());
  EXPECT_GT(*host.memory_bytes.value, 64 << 20);
#endif
#if defined(__x86_64__)
  EXPECT_EQ(host.has(Feature::host_avx2), __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
#endif
}

TEST(HostDevice, GoesRoundThroughJson) {
  const DeviceProfile host = host_device();
  const Result<DeviceProfile> again = device_from_json(device_to_json(host), "host.json");
  ASSERT_TRUE(again) << again.error().where << ": " << again.error().what;
  EXPECT_EQ(host, *again);
}

}  // namespace
}  // namespace tetrad
