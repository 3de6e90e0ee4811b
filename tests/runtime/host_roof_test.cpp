#include <gtest/gtest.h>

#include "tetrad/host.hpp"

namespace tetrad {
namespace {

TEST(HostRoof, MeasuresPlausibleLimitsAndFillsTheProfile) {
  const HostRoof roof = measure_host(1);
  EXPECT_EQ(roof.threads, 1);
  // Between a very old core under load and a future one.
  EXPECT_GT(roof.read_bytes_per_s, 1e8);
  EXPECT_LT(roof.read_bytes_per_s, 1e12);
  EXPECT_GT(roof.fma_flops_per_s, 1e8);
  EXPECT_LT(roof.fma_flops_per_s, 1e12);
  EXPECT_GT(roof.int8_ops_per_s, 1e8);
  EXPECT_LT(roof.int8_ops_per_s, 1e13);
  EXPECT_FALSE(roof.int8_kernel.empty());
  EXPECT_FALSE(roof.read_kernel.empty());
  EXPECT_FALSE(roof.isa.empty());

  const DeviceProfile device = host_device(roof);
  EXPECT_TRUE(device.host);
  EXPECT_EQ(device.bandwidth().value, roof.read_bytes_per_s);
  EXPECT_EQ(device.peak(Unit::fp32).value, roof.fma_flops_per_s);
  EXPECT_EQ(device.peak(Unit::int8).value, roof.int8_ops_per_s);
  EXPECT_NE(device.peak_int8.source.find(roof.int8_kernel), std::string::npos);
  EXPECT_EQ(device.bandwidth_read.origin, Origin::measured);
  EXPECT_NE(device.bandwidth_read.source.find(roof.read_kernel), std::string::npos);
}

TEST(HostRoof, UnmeasuredValuesStayUnknown) {
  const DeviceProfile device = host_device(HostRoof{});
  EXPECT_FALSE(device.bandwidth_read.known());
  EXPECT_FALSE(device.peak_fp32.known());
  EXPECT_FALSE(device.peak_int8.known());
}

}  // namespace
}  // namespace tetrad
