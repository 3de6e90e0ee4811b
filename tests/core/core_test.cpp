// Text helpers, element conversions and the thread pool.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "tetrad/parallel.hpp"
#include "tetrad/types.hpp"

namespace tetrad {
namespace {

TEST(Text, EditDistance) {
  EXPECT_EQ(core::edit_distance("", "abc"), 3);
  EXPECT_EQ(core::edit_distance("plan", "plan"), 0);
  EXPECT_EQ(core::edit_distance("paln", "plan"), 1);  // a swap is one step
  EXPECT_EQ(core::edit_distance("kitten", "sitting"), 3);
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(core::time_text(12.5), "12.5 s");
  EXPECT_EQ(core::time_text(1e-3), "1.00 ms");
  EXPECT_EQ(core::time_text(0.9996e-3), "1.00 ms");
  EXPECT_EQ(core::time_text(541.4e-6), "541 us");
  EXPECT_EQ(core::time_text(35e-9), "35.0 ns");
  EXPECT_EQ(core::time_text(0.0), "0 s");
  EXPECT_EQ(core::quantity_text(1.46e12, "FLOP"), "1.46 TFLOP");
  EXPECT_EQ(core::quantity_text(9.2e15, "FLOP"), "9.20 PFLOP");
  EXPECT_EQ(core::quantity_text(0.25, "B"), "0.25 B");
  EXPECT_EQ(core::quantity_text(std::numeric_limits<double>::quiet_NaN(), "B"), "-");
}

TEST(Text, DidYouMean) {
  const std::vector<std::string> known{"plan", "run", "bench", "inspect"};
  EXPECT_EQ(core::did_you_mean("paln", known), "did you mean 'plan'?");
  EXPECT_EQ(core::did_you_mean("zzzzzz", known), "");
  EXPECT_EQ(core::did_you_mean("", known), "");
  EXPECT_EQ(core::did_you_mean(std::string(100000, 'x'), known), "");
}

TEST(Text, GlobMatch) {
  EXPECT_TRUE(core::glob_match("sm120_*", "sm120_w4a4"));
  EXPECT_FALSE(core::glob_match("sm120_*", "sm121_w4a4"));
  EXPECT_TRUE(core::glob_match("*a*b?", "xxaxxbxbz"));
  EXPECT_FALSE(core::glob_match("?", ""));
  EXPECT_TRUE(core::glob_match("*", ""));
  EXPECT_FALSE(core::glob_match(std::string(200, '*') + "b", std::string(2000, 'a')));  // linear, not exponential
}

TEST(Text, ParseInt) {
  long long value = 0;
  EXPECT_TRUE(core::parse_int("-12", value));
  EXPECT_EQ(value, -12);
  for (const char* text : {"", "+1", "1 ", "0x1", "1e3", "9223372036854775808"}) {
    EXPECT_FALSE(core::parse_int(text, value)) << text;
  }
}

// Rounding by the definition: the nearest of the two neighbours, the even one on a tie.
template <class Decode>
std::uint16_t nearest_even(float value, std::uint16_t below, Decode decode) {
  const std::uint16_t above = static_cast<std::uint16_t>(below + 1);
  const double low = value - double{decode(below)};
  const double high = double{decode(above)} - value;
  if (low == high) return below % 2 == 0 ? below : above;
  return low < high ? below : above;
}

TEST(Types, Bf16RoundTripsAndRoundsToNearestEven) {
  for (std::uint32_t bits16 = 0; bits16 < 0x10000U; ++bits16) {
    const auto word = static_cast<std::uint16_t>(bits16);
    const float value = bf16_to_f32(word);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value))));
      continue;
    }
    ASSERT_EQ(f32_to_bf16(value), word);
  }
  for (const std::uint32_t low : {1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
    for (std::uint16_t high = 0; high < 0x7F7FU; high = static_cast<std::uint16_t>(high + 37)) {
      const float value = std::bit_cast<float>((std::uint32_t{high} << 16) | low);
      ASSERT_EQ(f32_to_bf16(value), nearest_even(value, high, bf16_to_f32)) << value;
    }
  }
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(Types, F16RoundTripsAndRoundsToNearestEven) {
  for (std::uint32_t bits16 = 0; bits16 < 0x10000U; ++bits16) {
    const auto word = static_cast<std::uint16_t>(bits16);
    const float value = f16_to_f32(word);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    ASSERT_EQ(f32_to_f16(value), word);
  }
  for (std::uint16_t half = 0; half < 0x7BFFU; ++half) {
    const float low = f16_to_f32(half);
    const float high = f16_to_f32(static_cast<std::uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    for (const float value : {middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      ASSERT_EQ(f32_to_f16(value), nearest_even(value, half, f16_to_f32)) << value;
      ASSERT_EQ(f32_to_f16(-value), 0x8000U | nearest_even(value, half, f16_to_f32)) << value;
    }
  }
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xFC00);
}

TEST(Types, ElementHonoursStrideAndType) {
  const std::vector<float> f32{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(element({f32.data(), DType::f32, 2, 2, 3}, 1, 1), 5.0F);
  const std::vector<std::uint16_t> bf16{0x3F80, 0x4000};
  EXPECT_EQ(element({bf16.data(), DType::bf16, 1, 2, 2}, 0, 1), 2.0F);
  const std::vector<std::uint16_t> f16{0x3C00, 0xC000};
  EXPECT_EQ(element({f16.data(), DType::f16, 1, 2, 2}, 0, 1), -2.0F);
}

TEST(Types, NamesParseBack) {
  for (int i = 0; i < 10; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(type)), type);
  }
  EXPECT_FALSE(parse_dtype("float"));
}

TEST(Parallel, CoversEveryIndexOnce) {
  for (const int threads : {0, 1, 2, 7}) {
    for (const std::int64_t count : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
      parallel_for(count, 3, threads, [&](std::int64_t begin, std::int64_t end, int worker) {
        EXPECT_LT(worker, threads == 0 ? hardware_threads() : threads);
        EXPECT_LE(end - begin, 3);
        for (std::int64_t i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)].fetch_add(1);
      });
      for (const std::atomic<int>& hit : hits) ASSERT_EQ(hit.load(), 1);
    }
  }
}

TEST(Parallel, NestedCallsRunInline) {
  std::atomic<int> sum{0};
  parallel_for(8, 1, 0, [&](std::int64_t, std::int64_t, int) {
    parallel_for(10, 2, 0, [&](std::int64_t begin, std::int64_t end, int worker) {
      EXPECT_EQ(worker, 0);
      sum += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(sum.load(), 80);
}

TEST(Parallel, ManyShortCallsInARow) {
  std::atomic<std::int64_t> sum{0};
  for (int call = 0; call < 5000; ++call) {
    parallel_for(4, 1, 0, [&](std::int64_t begin, std::int64_t, int) { sum += begin; });
  }
  EXPECT_EQ(sum.load(), 5000 * 6);
}

}  // namespace
}  // namespace tetrad
