// The judge against results that are wrong in the ways that kernels go wrong, and a second, integer reference.
#include "tetrad/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "kernels/data.hpp"
#include "tetrad/nvfp4.hpp"

namespace tetrad {
namespace {

using test::Dense;
using test::Weights;

constexpr std::int64_t kM = 64;
constexpr std::int64_t kN = 96;
constexpr std::int64_t kK = 512;

struct Correct {
  Weights weights{kN, kK, 0, 1};
  Dense x{DType::f32, kM, kK, 0};
  Reference reference;
  std::vector<float> y;

  Correct() {
    x.fill_normal(1);
    reference = product(weights, x);
    y.assign(reference.value.begin(), reference.value.end());
  }
  static Reference product(const Weights& w, const Dense& a) {
    const QuantizedTensor view = w.view();
    return *exact_product({&view, 1}, a.view());
  }
  static std::vector<float> values(const Weights& w, const Dense& a) {
    const Reference r = product(w, a);
    return {r.value.begin(), r.value.end()};
  }
  JudgeReport report(const std::vector<float>& result) const {
    return judge({result.data(), DType::f32, kM, kN, kN}, reference, {kK, DType::f32, 1.0, false});
  }
};

TEST(Judge, AcceptsTheCorrectResult) {
  const Correct c;
  const JudgeReport report = c.report(c.y);
  EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
  EXPECT_EQ(report.elements, kM * kN);
  EXPECT_LT(report.worst_ratio, 1.0);
}

TEST(Judge, CatchesEveryMutant) {
  const Correct c;
  const auto expect_fail = [&](const char* what, const std::vector<float>& y, std::int64_t least_over) {
    const JudgeReport report = c.report(y);
    EXPECT_EQ(report.judgement, Judgement::fail) << what << ": " << report.text();
    EXPECT_GE(report.over_bound, least_over) << what;
  };
  const auto scaled = [&](float factor) {
    std::vector<float> y = c.y;
    for (float& v : y) v *= factor;
    return y;
  };
  expect_fail("x 1.02", scaled(1.02F), kM * kN * 9 / 10);
  expect_fail("x 2", scaled(2.0F), kM * kN * 9 / 10);

  Dense cut = c.x;
  for (std::int64_t i = 0; i < kM; ++i)
    for (std::int64_t k = kK - 16; k < kK; ++k) cut.set(i, k, 0.0F);
  expect_fail("last 16 of k dropped", Correct::values(c.weights, cut), kM * kN * 9 / 10);

  Weights doubled = c.weights;
  for (std::int64_t r = 0; r < kN; ++r) doubled.scale(r, 7) = static_cast<std::uint8_t>(doubled.scale(r, 7) + 8);
  expect_fail("one group scale x 2", Correct::values(doubled, c.x), kM * kN * 9 / 10);

  Weights swapped = c.weights;
  for (std::int64_t r = 0; r < kN; ++r)
    for (std::int64_t b = 0; b < kK / 16; b += 2) std::swap(swapped.scale(r, b), swapped.scale(r, b + 1));
  expect_fail("neighbour scales swapped", Correct::values(swapped, c.x), kM * kN * 9 / 10);

  std::vector<float> y = c.y;
  std::fill(y.end() - kN, y.end(), 0.0F);
  expect_fail("last row zero", y, kN * 9 / 10);

  y = c.y;
  std::swap_ranges(y.begin(), y.begin() + kN, y.begin() + kN);
  expect_fail("two rows swapped", y, 2 * kN * 9 / 10);

  y = c.y;
  for (std::int64_t i = 0; i < 16; ++i)
    for (std::int64_t j = 0; j < 8; ++j)
      y[static_cast<std::size_t>((i + 16) * kN + j)] = c.y[static_cast<std::size_t>(i * kN + j)];
  expect_fail("a 16x8 tile is stale", y, 100);

  y = c.y;
  const auto largest = std::max_element(y.begin(), y.end());
  *largest = -*largest;
  expect_fail("one sign flipped", y, 1);

  expect_fail("all zero", std::vector<float>(c.y.size(), 0.0F), kM * kN * 9 / 10);
}

TEST(Judge, ReportsTheWorstElement) {
  const Correct c;
  std::vector<float> y = c.y;
  y[5 * kN + 6] += 1000.0F;
  y[7 * kN + 8] += 1.0F;
  const JudgeReport report = c.report(y);
  EXPECT_EQ(report.first_m, 5);
  EXPECT_EQ(report.first_n, 6);
  EXPECT_EQ(report.over_bound, 2);
}

TEST(Judge, NanAndInfMustStandInTheSamePlaces) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto one = [](double ref, float y, DType out = DType::f32) {
    const Reference reference{1, 1, {ref}, {std::fabs(ref)}};
    return judge({&y, DType::f32, 1, 1, 1}, reference, {16, out, 1.0, false}).judgement;
  };
  EXPECT_EQ(one(kNan, kNan), Judgement::pass);
  EXPECT_EQ(one(kNan, 1.0F), Judgement::fail);
  EXPECT_EQ(one(1.0, kNan), Judgement::fail);
  EXPECT_EQ(one(kInf, kInf), Judgement::pass);
  EXPECT_EQ(one(kInf, -kInf), Judgement::fail);
  EXPECT_EQ(one(1.0, kInf), Judgement::fail);
  EXPECT_EQ(one(1e39, kInf), Judgement::pass);
  EXPECT_EQ(one(-1e39, kInf), Judgement::fail);
  EXPECT_EQ(one(7e4, kInf, DType::f16), Judgement::pass);
  EXPECT_EQ(one(6e4, kInf, DType::f16), Judgement::fail);
}

TEST(Judge, MistrustsZerosAndEmptiness) {
  // A magnitude so large that every result is within the bound.
  Reference reference{4, 8, std::vector<double>(32, 1.0), std::vector<double>(32, 1e9)};
  const std::vector<float> zeros(32, 0.0F);
  EXPECT_EQ(judge({zeros.data(), DType::f32, 4, 8, 8}, reference, {512, DType::f32, 1.0, false}).judgement,
            Judgement::mistrusted);
  std::fill(reference.value.begin(), reference.value.end(), 0.0);
  EXPECT_EQ(judge({zeros.data(), DType::f32, 4, 8, 8}, reference, {512, DType::f32, 1.0, false}).judgement,
            Judgement::pass);
  EXPECT_EQ(judge({zeros.data(), DType::f32, 0, 8, 8}, {0, 8, {}, {}}, {}).judgement, Judgement::mistrusted);
  EXPECT_EQ(judge({zeros.data(), DType::f32, 8, 4, 4}, reference, {}).judgement, Judgement::fail);
}

TEST(Judge, ExactDemandsTheOnceRoundedReference) {
  const auto exact = [](double ref, float y, DType out) {
    const Reference reference{1, 1, {ref}, {std::fabs(ref)}};
    return judge({&y, DType::f32, 1, 1, 1}, reference, {16, out, 1.0, true}).judgement;
  };
  EXPECT_EQ(exact(1.0, 1.0F, DType::f32), Judgement::pass);
  EXPECT_EQ(exact(1.0, std::nextafter(1.0F, 2.0F), DType::f32), Judgement::fail);
  // Just above a bf16 tie: rounding to fp32 first would make it the tie and go down to 1.
  const double above_tie = 1.0 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(exact(above_tie, 1.0078125F, DType::bf16), Judgement::pass);
  EXPECT_EQ(exact(above_tie, 1.0F, DType::bf16), Judgement::fail);
}

// E2M1 as twice its value, UE4M3 as 512 times its value, both from the formats' definitions, in integers.
std::int64_t code_integer(unsigned code) {
  const unsigned exponent = code >> 1U & 3U;
  const unsigned mantissa = code & 1U;
  const std::int64_t value = exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1);
  return (code & 8U) != 0 ? -value : value;
}
std::int64_t scale_integer(unsigned byte) {
  const unsigned exponent = byte >> 3U & 15U;
  const unsigned mantissa = byte & 7U;
  return exponent == 0 ? mantissa : std::int64_t{8 + mantissa} << (exponent - 1);
}

TEST(ExactProduct, EqualsIntegerArithmeticForEveryPairOfCodesAndEveryScale) {
  // Row r of the weights is code r in all 16 places with every scale in turn; row c of the activations is code c.
  for (unsigned byte = 0; byte < 0x7F; ++byte) {
    Weights weights(16, 16, 0, 1);
    weights.global.value = 1.0F;
    Dense x(DType::f32, 16, 16, 0);
    for (unsigned r = 0; r < 16; ++r) {
      for (std::int64_t i = 0; i < 8; ++i) weights.code(r, i) = static_cast<std::uint8_t>(r * 17);
      weights.scale(r, 0) = static_cast<std::uint8_t>(byte);
      for (std::int64_t i = 0; i < 16; ++i) x.set(r, i, e2m1_decode(static_cast<std::uint8_t>(r)));
    }
    const Reference reference = Correct::product(weights, x);
    for (unsigned c = 0; c < 16; ++c)
      for (unsigned r = 0; r < 16; ++r) {
        const std::int64_t sum = 16 * code_integer(c) * code_integer(r) * scale_integer(byte);
        ASSERT_EQ(reference.value[c * 16 + r], static_cast<double>(sum) / 2048.0) << byte << " " << c << " " << r;
        ASSERT_EQ(reference.magnitude[c * 16 + r], static_cast<double>(std::abs(sum)) / 2048.0);
      }
  }
}

TEST(ExactProduct, EqualsIntegerSumsOverRandomOperands) {
  Weights weights(40, 1040, 1, 3);
  weights.global.value = 1.0F;
  Dense x(DType::bf16, 7, 1040, 2);
  std::mt19937 random(3);
  std::vector<std::int64_t> integers;
  for (std::int64_t i = 0; i < 7; ++i)
    for (std::int64_t c = 0; c < 1040; ++c) {
      integers.push_back(static_cast<std::int64_t>(random() % 255) - 127);
      x.set(i, c, static_cast<float>(integers.back()));
    }
  const Reference reference = Correct::product(weights, x);
  for (std::int64_t i = 0; i < 7; ++i)
    for (std::int64_t j = 0; j < 40; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t c = 0; c < 1040; ++c) {
        const unsigned pair = weights.code(j, c / 2);
        sum += integers[static_cast<std::size_t>(i * 1040 + c)] * code_integer(c % 2 == 0 ? pair & 15U : pair >> 4U) *
               scale_integer(weights.scale(j, c / 16));
      }
      ASSERT_EQ(reference.value[static_cast<std::size_t>(i * 40 + j)], static_cast<double>(sum) / 1024.0);
    }
}

TEST(ExactProduct, RefusesWhatDoesNotFit) {
  const Weights weights(4, 32, 0, 1);
  QuantizedTensor view = weights.view();
  const Dense x(DType::f32, 2, 16, 0);
  EXPECT_EQ(exact_product({&view, 1}, x.view()).error().id, "TE0602");
  const Dense fits(DType::f32, 2, 32, 0);
  view.input_global.reset();
  EXPECT_EQ(exact_product({&view, 1}, fits.view(), Acc::w4a4).error().id, "TE0603");
}

}  // namespace
}  // namespace tetrad
