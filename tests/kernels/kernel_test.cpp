// Every built row of the table, on every instruction set of this machine, against the double product of its operands.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <string>
#include <tuple>

#include "kernels/data.hpp"
#include "tetrad/judge.hpp"

namespace tetrad {
namespace {

using test::Dense;
using test::Output;
using test::Weights;

struct Case {
  const KernelDescriptor* row;
  std::int64_t target;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const KernelDescriptor& row : kernel_table()) {
    if (row.bind == nullptr) continue;
    std::int64_t seen = 0;
    for (std::int64_t bit = 1; bit != 0 && bit <= HWY_TARGETS; bit <<= 1)
      if ((hwy::SupportedTargets() & HWY_TARGETS & bit) != 0 && !row.candidate.reference) {
        all.push_back({&row, bit});
        ++seen;
      }
    if (seen == 0) all.push_back({&row, 0});
  }
  return all;
}

class Kernel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().target != 0) hwy::SetSupportedTargetsForTest(GetParam().target);
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  const Candidate& candidate() const { return GetParam().row->candidate; }

  std::unique_ptr<BoundKernel> bind(std::vector<QuantizedTensor> weights) const {
    auto bound = GetParam().row->bind(weights);
    EXPECT_TRUE(bound.has_value()) << (bound ? "" : bound.error().what);
    return bound ? std::move(*bound) : nullptr;
  }

  JudgeReport run(BoundKernel& kernel, std::vector<QuantizedTensor> weights, const Dense& x, Output& y,
                  const float* bias = nullptr, std::vector<std::int64_t> offsets = {}, bool exact = false) const {
    MatmulArgs args;
    args.x = x.view();
    args.y = y.view();
    args.bias = bias;
    args.group_offsets = offsets;
    const Status status = kernel.launch(args);
    EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().what + ": " + status.error().have);
    EXPECT_TRUE(y.guards_intact());
    const auto reference = exact_product(weights, x.view(), candidate().acc, bias, offsets);
    EXPECT_TRUE(reference.has_value());
    return judge(y.result(), *reference, {weights.front().k, y.type, 1.0, exact});
  }

  void expect_pass(std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType out, float deviation = 1.0F) const {
    SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " k " << k << " " << name(a) << " to " << name(out));
    const Weights weights(n, k, 3, static_cast<unsigned>(m * 7 + n * 3 + k));
    Dense x(a, m, k, 5);
    x.fill_normal(static_cast<unsigned>(m + n + k), deviation);
    Output y(out, m, n, 7);
    auto kernel = bind({weights.view()});
    ASSERT_NE(kernel, nullptr);
    const JudgeReport report = run(*kernel, {weights.view()}, x, y);
    EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
  }
};

TEST_P(Kernel, EveryActivationAndOutputType) {
  for (const DType a : candidate().a_types)
    for (const DType out : candidate().out_types) {
      expect_pass(1, 33, 160, a, out);
      expect_pass(5, 33, 160, a, out);
    }
}

TEST_P(Kernel, Edges) {
  for (const std::int64_t m : {1, 2, 3, 4, 15, 16, 17})
    for (const std::int64_t n : {1, 15, 16, 17, 24, 127, 128, 129})
      for (const std::int64_t k : {16, 32, 48, 64, 80, 528}) expect_pass(m, n, k, DType::bf16, DType::f32);
}

TEST_P(Kernel, Many) {
  expect_pass(127, 50, 1040, DType::bf16, DType::bf16);
  expect_pass(129, 50, 1040, DType::bf16, DType::bf16);
  expect_pass(260, 17, 96, DType::f32, DType::f32);
  expect_pass(1, 100, 8208, DType::bf16, DType::f32);
  expect_pass(2, 100, 8208, DType::bf16, DType::f32);
}

TEST_P(Kernel, TinyAndHugeValues) {
  for (const float deviation : {1e-30F, 1e-20F, 1e20F, 1e30F}) {
    expect_pass(1, 20, 112, DType::f32, DType::f32, deviation);
    expect_pass(6, 20, 112, DType::f32, DType::f32, deviation);
  }
}

TEST_P(Kernel, EveryScaleByteAndGlobalScales) {
  for (const GlobalScale global :
       {GlobalScale{1.0F, GlobalScale::Kind::multiplier}, GlobalScale{1e-25F, GlobalScale::Kind::multiplier},
        GlobalScale{1e25F, GlobalScale::Kind::multiplier}, GlobalScale{896.0F, GlobalScale::Kind::divisor}}) {
    Weights weights(256, 64, 0, 5);
    weights.global = global;
    for (std::int64_t r = 0; r < 256; ++r)
      for (std::int64_t b = 0; b < 4; ++b) weights.scale(r, b) = static_cast<std::uint8_t>(r);
    for (const std::int64_t m : {1, 2, 5}) {
      Dense x(DType::f32, m, 64, 0);
      x.fill_normal(3, 0.01F);
      Output y(DType::f32, m, 256, 0);
      auto kernel = bind({weights.view()});
      const JudgeReport report = run(*kernel, {weights.view()}, x, y);
      EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
      EXPECT_TRUE(std::isnan(element(y.result(), 0, 0x7F)));
      EXPECT_FALSE(std::isnan(element(y.result(), 0, 0x7E)));
    }
  }
}

TEST_P(Kernel, ZeroActivations) {
  const Weights weights(40, 96, 0, 1);
  for (const std::int64_t m : {1, 3}) {
    Dense x(DType::bf16, m, 96, 0);
    x.fill_normal(1, 0.0F);
    Output y(DType::f32, m, 40, 0);
    auto kernel = bind({weights.view()});
    EXPECT_EQ(run(*kernel, {weights.view()}, x, y).judgement, Judgement::pass);
    for (std::int64_t j = 0; j < 40; ++j) EXPECT_EQ(element(y.result(), m - 1, j), 0.0F);
  }
}

TEST_P(Kernel, NanAndInfStandWhereTheReferenceHasThem) {
  const Weights weights(30, 208, 0, 2);
  for (const std::int64_t m : {1, 2, 6}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      Dense x(DType::bf16, m, 208, 0);
      x.fill_normal(9);
      x.set(m - 1, 200, bad);
      Output y(DType::f32, m, 30, 0);
      auto kernel = bind({weights.view()});
      const JudgeReport report = run(*kernel, {weights.view()}, x, y);
      EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
      EXPECT_TRUE(candidate().acc == Acc::w4a4 || !std::isfinite(element(y.result(), m - 1, 0)));
      EXPECT_TRUE(m == 1 || std::isfinite(element(y.result(), 0, 0)));
    }
  }
}

TEST_P(Kernel, CancellationStaysInsideTheBound) {
  const std::int64_t k = 1024;
  Weights weights(24, k, 0, 4);
  for (std::int64_t r = 0; r < 24; ++r) {
    for (std::int64_t i = k / 4; i < k / 2; ++i) weights.code(r, i) = weights.code(r, i - k / 4);
    for (std::int64_t b = k / 32; b < k / 16; ++b) weights.scale(r, b) = weights.scale(r, b - k / 32);
  }
  for (const std::int64_t m : {1, 2, 7}) {
    Dense x(DType::f32, m, k, 0);
    x.fill_normal(6, 100.0F);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t c = 0; c < k / 2; ++c) x.set(i, c + k / 2, -element(x.view(), i, c));
    Output y(DType::f32, m, 24, 0);
    auto kernel = bind({weights.view()});
    const JudgeReport report = run(*kernel, {weights.view()}, x, y);
    EXPECT_EQ(report.over_bound, 0) << report.text();
  }
}

// Where the large elements of a block meet zero codes, the result is made of the small ones alone: whatever is left of
// them when a block is brought to one exponent must not be lost. `small` of them per row, in 16-bit types far enough
// below to leave such remainders; with many, or many more binades, the rows take other paths.
TEST_P(Kernel, SmallElementsBesideLargeOnesCount) {
  if (candidate().acc != Acc::w4a16) GTEST_SKIP() << "activations are rounded per block";
  const std::int64_t k = 2064;
  for (const DType type : {DType::bf16, DType::f16, DType::f32})
    for (const float ratio : {0x1p-14F, 0x1p-19F, 0x1p-30F, 0x1p-60F})
      for (const std::int64_t small : {1, 5, 60, 64, 65, 129}) {
        if (type == DType::f16 && ratio < 0x1p-20F) continue;
        SCOPED_TRACE(testing::Message() << name(type) << " ratio " << ratio << " small " << small);
        Weights weights(6, k, 0, 4);
        Dense x(type, 2, k, 0);
        x.fill_normal(6, ratio);
        for (std::int64_t c = 0; c < k; ++c)
          if (c % 16 != 3 || c / 16 >= small)
            for (std::int64_t i = 0; i < 2; ++i) {
              x.set(i, c, c % 2 == 0 ? 1.9921875F : -1.0F);
              for (std::int64_t r = 0; r < 6; ++r) weights.code(r, c / 2) &= c % 2 == 0 ? 0xF0 : 0x0F;
            }
        Output y(DType::f32, 2, 6, 0);
        auto kernel = bind({weights.view()});
        const JudgeReport report = run(*kernel, {weights.view()}, x, y);
        EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
      }
}

// Scale 1, activations on the E2M1 grid: every fp32 sum is exact in any order up to k = 2^24 / 144.
TEST_P(Kernel, ExactUpToTheLongestExactSum) {
  for (const std::int64_t k : {std::int64_t{64}, std::int64_t{4096}, std::int64_t{116496}}) {
    Weights weights(27, k, 0, 8);
    weights.global.value = 1.0F;
    weights.input_global.value = 1.0F;
    std::fill(weights.scales.begin(), weights.scales.end(), std::uint8_t{0x38});
    for (const std::int64_t m : {1, 2, 5}) {
      Dense x(DType::bf16, m, k, 0);
      std::mt19937 random(11);
      constexpr float kGrid[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t c = 0; c < k; ++c) {
          const float value = c % 16 == 0 ? 6.0F : kGrid[random() % 8];
          x.set(i, c, random() % 2 == 0 ? value : -value);
        }
      Output y(DType::f32, m, 27, 0);
      auto kernel = bind({weights.view()});
      // int8 with a scale of 6 / 127 does not hold the grid exactly.
      const bool exact = candidate().acc != Acc::w4a8;
      const JudgeReport report = run(*kernel, {weights.view()}, x, y, nullptr, {}, exact);
      EXPECT_EQ(report.judgement, Judgement::pass) << "k " << k << " m " << m << " " << report.text();
    }
  }
}

TEST_P(Kernel, BiasIsAddedAfterAlpha) {
  const Weights weights(50, 64, 0, 12);
  std::vector<float> bias;
  for (int j = 0; j < 50; ++j) bias.push_back(static_cast<float>(j) * 3.25F - 20.0F);
  for (const std::int64_t m : {1, 9}) {
    Dense x(DType::f16, m, 64, 1);
    x.fill_normal(2);
    Output y(DType::bf16, m, 50, 1);
    auto kernel = bind({weights.view()});
    const JudgeReport report = run(*kernel, {weights.view()}, x, y, bias.data());
    EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
  }
}

TEST_P(Kernel, GroupsWithEmptyOnes) {
  std::vector<Weights> weights;
  std::vector<QuantizedTensor> views;
  for (unsigned g = 0; g < 5; ++g) {
    weights.emplace_back(29, 96, 2, 20 + g);
    weights.back().global.value = 0.01F * static_cast<float>(g + 1);
  }
  for (const Weights& w : weights) views.push_back(w.view());
  Dense x(DType::bf16, 11, 96, 3);
  x.fill_normal(5);
  Output y(DType::f32, 11, 29, 3);
  auto kernel = bind(views);
  const JudgeReport report = run(*kernel, views, x, y, nullptr, {0, 0, 1, 3, 11, 11});
  EXPECT_EQ(report.judgement, Judgement::pass) << report.text();
}

TEST_P(Kernel, NoRows) {
  const Weights weights(8, 32, 0, 1);
  const Dense x(DType::f32, 0, 32, 0);
  Output y(DType::f32, 0, 8, 0);
  auto kernel = bind({weights.view()});
  MatmulArgs args;
  args.x = x.view();
  args.y = y.view();
  EXPECT_TRUE(kernel->launch(args).has_value());
  EXPECT_TRUE(y.guards_intact());
}

std::vector<std::uint8_t> bits_of(BoundKernel& kernel, ConstMatrix x, std::int64_t n, int threads) {
  Output y(DType::f32, x.rows, n, 0);
  MatmulArgs args;
  args.x = x;
  args.y = y.view();
  args.threads = threads;
  EXPECT_TRUE(kernel.launch(args).has_value());
  return {y.bytes.begin() + Output::kGuard, y.bytes.end() - Output::kGuard};
}

TEST_P(Kernel, SameBitsTwiceAndForAnyThreadCount) {
  if (!candidate().deterministic) GTEST_SKIP() << "not declared deterministic";
  const Weights weights(101, 624, 0, 3);
  for (const std::int64_t m : {1, 2, 33}) {
    Dense x(DType::bf16, m, 624, 0);
    x.fill_normal(1);
    auto kernel = bind({weights.view()});
    const auto once = bits_of(*kernel, x.view(), 101, 1);
    EXPECT_EQ(once, bits_of(*kernel, x.view(), 101, 1));
    EXPECT_EQ(once, bits_of(*kernel, x.view(), 101, 2));
  }
}

TEST_P(Kernel, RowsDoNotDependOnTheirNeighboursWhereDeclared) {
  if (!candidate().m_invariant) GTEST_SKIP() << "not declared m-invariant";
  const Weights weights(53, 624, 0, 3);
  Dense x(DType::bf16, 135, 624, 0);
  x.fill_normal(1);
  auto kernel = bind({weights.view()});
  const auto all = bits_of(*kernel, x.view(), 53, 2);
  for (const std::int64_t i : {0, 1, 3, 127, 128, 134}) {
    const auto alone = bits_of(*kernel, x.rows_view(i, 1), 53, 1);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + i * 53 * 4)) << "row " << i;
  }
}

TEST_P(Kernel, RefusesWhatDoesNotFit) {
  const Weights weights(8, 32, 0, 1);
  auto kernel = bind({weights.view()});
  Dense x(DType::f32, 2, 48, 0);
  Output y(DType::f32, 2, 8, 0);
  MatmulArgs args;
  args.x = x.view();
  args.y = y.view();
  const Status status = kernel->launch(args);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().id, "TE0602");
  EXPECT_EQ(status.error().have, "2x48");

  QuantizedTensor odd = weights.view();
  odd.k = 24;
  auto bound = GetParam().row->bind({&odd, 1});
  ASSERT_FALSE(bound.has_value());
  EXPECT_EQ(bound.error().id, "TE0601");

  if (candidate().needs_input_scale) {
    QuantizedTensor without = weights.view();
    without.input_global.reset();
    auto refused = GetParam().row->bind({&without, 1});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().id, "TE0603");
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Kernel, testing::ValuesIn(cases()), [](const testing::TestParamInfo<Case>& test) {
  const std::string target = test.param.target == 0 ? "any" : hwy::TargetName(test.param.target);
  return test.param.row->candidate.name + "_" + target;
});

}  // namespace
}  // namespace tetrad
