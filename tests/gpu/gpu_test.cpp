// Every row with GPU code against the exact product, element by element. Skipped, and counted as such, without a GPU.
#include "tetrad/gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/data.hpp"
#include "kernels/gpu/row.hpp"
#include "tetrad/judge.hpp"

namespace tetrad {
namespace {

using test::Dense;
using test::Output;
using test::Weights;

std::vector<Candidate> gpu_rows() {
  std::vector<Candidate> rows;
  for (const KernelDescriptor& row : kernel_table())
    if (kernels::device_bind_of(row.candidate.name) != nullptr) rows.push_back(row.candidate);
  return rows;
}

gpu::Memory to_device(const void* from, std::size_t bytes) {
  Result<gpu::Memory> memory = gpu::allocate(std::max<std::size_t>(bytes, 1));
  EXPECT_TRUE(memory) << memory.error().what;
  EXPECT_TRUE(bytes == 0 || gpu::copy_to_device(memory->data.get(), from, bytes));
  return *memory;
}

class GpuKernel : public testing::TestWithParam<Candidate> {
 protected:
  void SetUp() override {
    if (const Result<int> count = gpu::device_count(); !count)
      GTEST_SKIP() << count.error().what << ": " << count.error().have;
  }

  // A weight on the device with the row bound to it.
  struct Bound {
    gpu::Weight weight;
    std::unique_ptr<gpu::Kernel> kernel;
  };
  Bound bind(const QuantizedTensor& tensor) const {
    Result<PackedWeight> packed = pack(tensor, "mma16/1");
    EXPECT_TRUE(packed) << packed.error().what;
    Result<gpu::Weight> weight = gpu::upload(*packed);
    EXPECT_TRUE(weight) << weight.error().what;
    auto kernel = gpu::bind(GetParam().name, *weight);
    EXPECT_TRUE(kernel) << kernel.error().what << " " << kernel.error().have;
    return {*weight, kernel ? std::move(*kernel) : nullptr};
  }

  // One launch with a poisoned workspace; the result comes back into y, guards included.
  void run(gpu::Kernel& kernel, const Dense& x, Output& y, const float* bias = nullptr, std::int64_t offset = 0) const {
    const gpu::Memory xs = to_device(x.bytes.data(), x.bytes.size());
    const gpu::Memory ys = to_device(y.bytes.data(), y.bytes.size());
    gpu::Memory bs;
    if (bias != nullptr) bs = to_device(bias, static_cast<std::size_t>(y.cols) * sizeof(float));
    const std::size_t bytes = kernel.workspace_bytes(x.rows);
    const gpu::Memory workspace = *gpu::allocate(bytes + 256);
    ASSERT_TRUE(gpu::fill(workspace.data.get(), 0xFF, bytes + 256));
    gpu::Args args;
    args.x = {xs.data.get() + offset * x.width(), x.type, x.rows, x.cols - offset, x.stride};
    args.y = {ys.data.get() + Output::kGuard, y.type, y.rows, y.cols, y.stride};
    args.bias = reinterpret_cast<const float*>(bs.data.get());
    args.workspace = workspace.data.get();
    args.workspace_bytes = bytes;
    const Status status = kernel.launch(args);
    ASSERT_TRUE(status) << status.error().what << " " << status.error().need << " " << status.error().have;
    const Status done = gpu::synchronize();
    ASSERT_TRUE(done) << done.error().what << " " << done.error().have;
    ASSERT_TRUE(gpu::copy_to_host(y.bytes.data(), ys.data.get(), y.bytes.size()));
    std::vector<std::uint8_t> behind(256);
    ASSERT_TRUE(gpu::copy_to_host(behind.data(), workspace.data.get() + bytes, 256));
    EXPECT_TRUE(std::all_of(behind.begin(), behind.end(), [](std::uint8_t b) { return b == 0xFF; }));
    EXPECT_TRUE(y.guards_intact());
  }

  void expect_near(const QuantizedTensor& w, gpu::Kernel& kernel, const Dense& x, DType out,
                   const float* bias = nullptr, bool exact = false) const {
    Output y(out, x.rows, w.rows, 7);
    run(kernel, x, y, bias);
    const auto reference = exact_product({&w, 1}, x.view(), GetParam().acc, bias);
    ASSERT_TRUE(reference);
    const JudgeReport report = judge(y.result(), *reference, {w.k, out, 1.0, exact});
    EXPECT_EQ(report.judgement, Judgement::pass) << report.text() << " m " << x.rows << " n " << w.rows << " k " << w.k
                                                 << " " << name(x.type) << " to " << name(out);
    worst_ratio_ = std::max(worst_ratio_, report.worst_ratio);
    ++shapes_;
  }

  void expect_shape(std::int64_t n, std::int64_t k, const std::vector<std::int64_t>& ms, DType a, DType out,
                    float deviation = 1.0F, float global = 0.0123F, std::int64_t pad = 8) const {
    Weights weights(n, k, 3, static_cast<unsigned>(n * 3 + k));
    weights.global.value = global;
    const Bound bound = bind(weights.view());
    ASSERT_NE(bound.kernel, nullptr);
    for (const std::int64_t m : ms) {
      Dense x(a, m, k, pad);
      x.fill_normal(static_cast<unsigned>(m + n + k), deviation);
      expect_near(weights.view(), *bound.kernel, x, out);
    }
  }

  void TearDown() override {
    if (shapes_ > 0)
      RecordProperty("compared", std::to_string(shapes_) + ", worst ratio " + std::to_string(worst_ratio_));
  }
  mutable int shapes_ = 0;
  mutable double worst_ratio_ = 0.0;
};

const std::vector<std::int64_t> kAll = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

TEST_P(GpuKernel, RaggedShapes) {
  for (const std::int64_t n : {1, 7, 8, 15, 16, 17, 40, 129})
    for (const std::int64_t k : {16, 32, 48, 64, 80, 272, 528, 1040})
      expect_shape(n, k, {1, 5, 8, 11, 16}, DType::bf16, DType::bf16);
}

TEST_P(GpuKernel, EveryNumberOfTokensAndType) {
  for (const DType a : GetParam().a_types)
    for (const DType out : {DType::bf16, DType::f16, DType::f32}) expect_shape(100, 1104, kAll, a, out);
}

TEST_P(GpuKernel, ManyBlocks) {
  expect_shape(4096, 4096, {1, 3, 8, 16}, DType::bf16, DType::bf16);
  expect_shape(5120, 5120, {1, 8, 16}, DType::f16, DType::f16);
  expect_shape(2064, 5136, {2, 9}, DType::bf16, DType::f32);
  expect_shape(40000, 64, {1, 16}, DType::bf16, DType::bf16);
}

// Few tiles and long rows: several blocks share a tile, and the activations come in slices of k.
TEST_P(GpuKernel, SumsOfSeveralBlocks) {
  expect_shape(16, 16384, {1, 8, 16}, DType::bf16, DType::f32);
  expect_shape(64, 30000, {1, 7, 8, 9, 16}, DType::bf16, DType::bf16);
  expect_shape(512, 17408, {1, 4, 8, 16}, DType::f16, DType::bf16);
}

TEST_P(GpuKernel, UnalignedRowsOfActivations) {
  expect_shape(33, 144, {1, 3, 9}, DType::bf16, DType::bf16, 1.0F, 0.0123F, 3);
  expect_shape(33, 144, {1, 3, 9}, DType::f16, DType::f16, 1.0F, 0.0123F, 1);
}

TEST_P(GpuKernel, TinyAndHugeValues) {
  for (const float deviation : {1e-25F, 1e-12F, 1e12F, 1e25F})
    expect_shape(50, 336, {1, 9}, DType::bf16, DType::f32, deviation);
  for (const float deviation : {1e-6F, 1e-3F, 1e3F, 1e4F})
    expect_shape(50, 336, {1, 9}, DType::f16, DType::f32, deviation);
  for (const float global : {1e-30F, 1e-10F, 1e10F, 1e30F})
    expect_shape(50, 336, {1, 9}, DType::bf16, DType::f32, 1.0F, global);
}

// All 127 scale bytes, and NaN in some rows.
TEST_P(GpuKernel, EveryScaleByte) {
  for (const DType a : GetParam().a_types) {
    Weights weights(128, 64, 0, 5);
    for (std::int64_t r = 0; r < 128; ++r)
      for (std::int64_t b = 0; b < 4; ++b) weights.scale(r, b) = static_cast<std::uint8_t>(r);
    const Bound bound = bind(weights.view());
    for (const std::int64_t m : {1, 9}) {
      Dense x(a, m, 64, 0);
      x.fill_normal(3, 0.01F);
      expect_near(weights.view(), *bound.kernel, x, DType::f32);
    }
  }
}

TEST_P(GpuKernel, ExactSumsAreExact) {
  for (const DType a : GetParam().a_types)
    for (const std::int64_t k : {16, 1104}) {
      Weights weights(70, k, 0, 9);
      weights.global.value = 0.25F;
      std::mt19937 random(4);
      for (std::int64_t r = 0; r < 70; ++r)
        for (std::int64_t b = 0; b < k / 16; ++b)
          weights.scale(r, b) = static_cast<std::uint8_t>(0x30 + 8 * (random() % 3));  // 0.5, 1, 2
      const Bound bound = bind(weights.view());
      for (const std::int64_t m : {1, 8, 16}) {
        Dense x(a, m, k, 0);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t c = 0; c < k; ++c) x.set(i, c, static_cast<float>(static_cast<int>(random() % 17) - 8));
        expect_near(weights.view(), *bound.kernel, x, DType::f32, nullptr, true);
        expect_near(weights.view(), *bound.kernel, x, DType::bf16, nullptr, true);
      }
    }
}

TEST_P(GpuKernel, ZerosNanAndInfinity) {
  Weights weights(48, 208, 0, 2);
  for (std::int64_t i = 0; i < 104; ++i) weights.code(5, i) = 0;
  for (std::int64_t i = 0; i < 104; ++i) weights.code(6, i) = 0x88;
  const Bound bound = bind(weights.view());
  for (const std::int64_t m : {3, 12}) {
    Dense x(DType::bf16, m, 208, 0);
    x.fill_normal(8);
    x.set(1, 77, std::numeric_limits<float>::quiet_NaN());
    expect_near(weights.view(), *bound.kernel, x, DType::bf16);
    x.set(2, 200, std::numeric_limits<float>::infinity());
    expect_near(weights.view(), *bound.kernel, x, DType::f32);
    for (std::int64_t c = 0; c < 208; ++c) x.set(0, c, 0.0F);
    expect_near(weights.view(), *bound.kernel, x, DType::bf16);
  }
}

TEST_P(GpuKernel, Bias) {
  const Weights weights(50, 64, 0, 12);
  std::vector<float> bias;
  for (int j = 0; j < 50; ++j) bias.push_back(static_cast<float>(j) * 3.25F - 20.0F);
  const Bound bound = bind(weights.view());
  for (const std::int64_t m : {1, 9}) {
    Dense x(DType::f16, m, 64, 8);
    x.fill_normal(2);
    expect_near(weights.view(), *bound.kernel, x, DType::bf16, bias.data());
  }
}

TEST_P(GpuKernel, SameBitsTwice) {
  for (const std::int64_t k : {5120, 30000}) {
    const Weights weights(592, k, 0, 3);
    const Bound bound = bind(weights.view());
    for (const std::int64_t m : {1, 8, 16}) {
      Dense x(DType::bf16, m, k, 0);
      x.fill_normal(1);
      Output first(DType::f32, m, 592, 0);
      run(*bound.kernel, x, first);
      for (int again = 0; again < 3; ++again) {
        Output second(DType::f32, m, 592, 0);
        run(*bound.kernel, x, second);
        EXPECT_EQ(first.bytes, second.bytes) << "k " << k << " m " << m;
      }
    }
  }
}

TEST_P(GpuKernel, Refusals) {
  const Weights weights(24, 64, 0, 1);
  const Bound bound = bind(weights.view());
  gpu::Args args;
  args.x = {bound.weight.data.data.get(), DType::f32, 1, 64, 64};
  args.y = {bound.weight.data.data.get(), DType::bf16, 1, 24, 24};
  EXPECT_EQ(bound.kernel->launch(args).error().id, "TE0602");
  args.x.type = DType::bf16;
  args.x.rows = args.y.rows = GetParam().m_max + 1;
  EXPECT_EQ(bound.kernel->launch(args).error().id, "TE0602");
  args.x.rows = args.y.rows = 0;
  EXPECT_TRUE(bound.kernel->launch(args));
  gpu::Weight odd = bound.weight;
  odd.layout = "linear/1";
  EXPECT_EQ(gpu::bind(GetParam().name, odd).error().id, "TE0601");
  EXPECT_EQ(gpu::bind("sm80_w4a16_none", bound.weight).error().id, "TE0604");
  EXPECT_EQ(gpu::bind("cpu_w4a16_f32", bound.weight).error().id, "TE1004");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuKernel);
INSTANTIATE_TEST_SUITE_P(Table, GpuKernel, testing::ValuesIn(gpu_rows()),
                         [](const testing::TestParamInfo<Candidate>& row) { return row.param.name; });

TEST(Gpu, WithoutOneEveryCallSaysSo) {
  if (gpu::device_count()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(gpu::device_count().error().id, "TE1001");
  EXPECT_EQ(gpu::allocate(16).error().id, "TE1001");
  EXPECT_EQ(gpu::current_device().error().kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace tetrad
