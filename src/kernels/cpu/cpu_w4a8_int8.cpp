// Row cpu_w4a8_int8: activations rounded to int8 per 16 along k, exact integer products within a block, sums of blocks
// in fp32. Codes become 2 * e2m1 + 12, unsigned, so that one instruction multiplies them with signed activations; the
// offset is taken off by 12 * (sum of the activations), which the packing provides. One partial sum per lane for every
// m, in the same order, so a row has the same bits whatever rows stand beside it.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cpu/int8.hpp"
#include "kernels/cpu/rows.hpp"
#include "kernels/cpu/tables.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cpu_w4a8_int8.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TETRAD_CPU_W4A8_ONCE
#define TETRAD_CPU_W4A8_ONCE
namespace tetrad::kernels {

// 64 activations: those of even and of odd k, so that they meet the low and the high nibbles of 32 bytes of codes.
struct alignas(32) Int8Step {
  std::int8_t even[kStep / 2];
  std::int8_t odd[kStep / 2];
  std::int16_t offset[kStep / 4];  // 12 * (sum of the four activations of 16-bit lane i)
  float scales[kStep / 8];         // of the block of 32-bit lane i
};

// 64 weights of one row in the same order.
struct alignas(32) WeightStep {
  std::uint8_t even[kStep / 2];
  std::uint8_t odd[kStep / 2];
  float scales[kStep / 8];
};

inline constexpr std::int64_t kInt8Steps = 32;    // steps of k per decoded panel
inline constexpr std::int64_t kInt8Lanes = 8;     // partial sums per result
inline constexpr std::int64_t kInt8Ahead = 1024;  // prefetch distance along a row of codes, bytes

// Codes and scales of a step across the end of a row, zero beyond it.
struct Int8Tail {
  alignas(32) std::uint8_t codes[kStep / 2] = {};
  std::uint8_t scales[kStep / kBlock] = {};
  Int8Tail(const std::uint8_t* c, const std::uint8_t* s, std::int64_t elements) {
    std::memcpy(codes, c, static_cast<std::size_t>(elements / 2));
    std::memcpy(scales, s, static_cast<std::size_t>(elements / kBlock));
  }
};

inline float sum_int8_lanes(const float* v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace tetrad::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

struct Weights64 {
  __m256i even;
  __m256i odd;
  __m256 scales;
};

HWY_INLINE Weights64 DecodeInt8(const std::uint8_t* codes, const std::uint8_t* scales) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  // Scale byte of block lane / 2 into each 32-bit lane.
  const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1,  //
                                          2, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 3, -1, -1, -1);
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  std::int32_t four;
  std::memcpy(&four, scales, sizeof(four));
  const __m256i positive = _mm256_and_si256(_mm256_set1_epi32(four), _mm256_set1_epi8(0x7F));
  // Exponent and mantissa at their places in fp32 give the value times 2^-120.
  const __m256i bits = _mm256_slli_epi32(_mm256_shuffle_epi8(positive, spread), 20);
  return {_mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)),
          _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p120F))};
}

HWY_INLINE __m256 DotInt8(const Weights64& w, const Int8Step& x, __m256 sum) {
  const __m256i even = _mm256_maddubs_epi16(w.even, _mm256_load_si256(reinterpret_cast<const __m256i*>(x.even)));
  const __m256i odd = _mm256_maddubs_epi16(w.odd, _mm256_load_si256(reinterpret_cast<const __m256i*>(x.odd)));
  const __m256i offset = _mm256_load_si256(reinterpret_cast<const __m256i*>(x.offset));
  const __m256i pairs = _mm256_sub_epi16(_mm256_add_epi16(even, odd), offset);
  const __m256 dots = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  return _mm256_fmadd_ps(dots, _mm256_mul_ps(w.scales, _mm256_load_ps(x.scales)), sum);
}

float SumLanes8(__m256 v) {
  alignas(32) float lanes[kInt8Lanes];
  _mm256_store_ps(lanes, v);
  return sum_int8_lanes(lanes);
}

// Four rows of weights times one of activations. Each sum is a variable of its own: arrays of them are kept in memory
// by the compiler.
void FourRows8(const Panel& panel, std::int64_t j) {
  const QuantizedTensor& w = *panel.weights;
  const auto* x = reinterpret_cast<const Int8Step*>(panel.x);
  const std::uint8_t* codes = w.codes + (panel.n + j) * w.code_stride;
  const std::uint8_t* scales = w.scales + (panel.n + j) * w.scale_stride;
  const std::int64_t code = w.code_stride;
  const std::int64_t scale = w.scale_stride;
  __m256 a = _mm256_setzero_ps();
  __m256 b = a;
  __m256 c = a;
  __m256 d = a;
  for (std::int64_t step = 0; step < w.k / kStep; ++step, ++x) {
    for (int r = 0; r < 4; ++r) _mm_prefetch(reinterpret_cast<const char*>(codes + r * code) + kInt8Ahead, _MM_HINT_T0);
    a = DotInt8(DecodeInt8(codes, scales), *x, a);
    b = DotInt8(DecodeInt8(codes + code, scales + scale), *x, b);
    c = DotInt8(DecodeInt8(codes + 2 * code, scales + 2 * scale), *x, c);
    d = DotInt8(DecodeInt8(codes + 3 * code, scales + 3 * scale), *x, d);
    codes += kStep / 2;
    scales += kStep / kBlock;
  }
  if (const std::int64_t rest = w.k % kStep; rest != 0) {
    const Int8Tail tails[4] = {{codes, scales, rest},
                               {codes + code, scales + scale, rest},
                               {codes + 2 * code, scales + 2 * scale, rest},
                               {codes + 3 * code, scales + 3 * scale, rest}};
    a = DotInt8(DecodeInt8(tails[0].codes, tails[0].scales), *x, a);
    b = DotInt8(DecodeInt8(tails[1].codes, tails[1].scales), *x, b);
    c = DotInt8(DecodeInt8(tails[2].codes, tails[2].scales), *x, c);
    d = DotInt8(DecodeInt8(tails[3].codes, tails[3].scales), *x, d);
  }
  panel.sums[j] = SumLanes8(a);
  panel.sums[j + 1] = SumLanes8(b);
  panel.sums[j + 2] = SumLanes8(c);
  panel.sums[j + 3] = SumLanes8(d);
}

void OneRow8(const Panel& panel, std::int64_t j) {
  const QuantizedTensor& w = *panel.weights;
  const auto* x = reinterpret_cast<const Int8Step*>(panel.x);
  const std::uint8_t* codes = w.codes + (panel.n + j) * w.code_stride;
  const std::uint8_t* scales = w.scales + (panel.n + j) * w.scale_stride;
  __m256 sum = _mm256_setzero_ps();
  for (std::int64_t step = 0; step < w.k / kStep; ++step, ++x) {
    sum = DotInt8(DecodeInt8(codes, scales), *x, sum);
    codes += kStep / 2;
    scales += kStep / kBlock;
  }
  if (w.k % kStep != 0) {
    const Int8Tail tail(codes, scales, w.k % kStep);
    sum = DotInt8(DecodeInt8(tail.codes, tail.scales), *x, sum);
  }
  panel.sums[j] = SumLanes8(sum);
}

void VectorPanel8(const Panel& panel) {
  std::int64_t j = 0;
  for (; j + 4 <= panel.count; j += 4) FourRows8(panel, j);
  for (; j < panel.count; ++j) OneRow8(panel, j);
}

// sums[i, lane] += x[i] * w over `steps` steps, for M rows of activations and one row of weights.
template <int M>
void Column8(const Int8Step* x, std::int64_t x_stride, const WeightStep* w, std::int64_t steps, float* sums) {
  __m256 acc[M];
  const Int8Step* rows[M];
  for (int i = 0; i < M; ++i) {
    acc[i] = _mm256_load_ps(sums + i * kPanel * kInt8Lanes);
    rows[i] = x + i * x_stride;
  }
  for (std::int64_t s = 0; s < steps; ++s) {
    const Weights64 step = {_mm256_load_si256(reinterpret_cast<const __m256i*>(w[s].even)),
                            _mm256_load_si256(reinterpret_cast<const __m256i*>(w[s].odd)), _mm256_load_ps(w[s].scales)};
    for (int i = 0; i < M; ++i) acc[i] = DotInt8(step, rows[i][s], acc[i]);
  }
  for (int i = 0; i < M; ++i) _mm256_store_ps(sums + i * kPanel * kInt8Lanes, acc[i]);
}

void StoreStep(const std::uint8_t* codes, const std::uint8_t* scales, WeightStep& out) {
  const Weights64 step = DecodeInt8(codes, scales);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out.even), step.even);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out.odd), step.odd);
  _mm256_store_ps(out.scales, step.scales);
}

#else

template <int M>
void Column8(const Int8Step* x, std::int64_t x_stride, const WeightStep* w, std::int64_t steps, float* sums) {
  for (int i = 0; i < M; ++i)
    for (std::int64_t s = 0; s < steps; ++s) {
      const Int8Step& a = x[i * x_stride + s];
      for (std::size_t lane = 0; lane < kInt8Lanes; ++lane) {
        int dot = -a.offset[2 * lane] - a.offset[2 * lane + 1];
        for (std::size_t b = 4 * lane; b < 4 * lane + 4; ++b) dot += w[s].even[b] * a.even[b] + w[s].odd[b] * a.odd[b];
        sums[i * kPanel * kInt8Lanes + static_cast<std::int64_t>(lane)] +=
            static_cast<float>(dot) * (w[s].scales[lane] * a.scales[lane]);
      }
    }
}

void StoreStep(const std::uint8_t* codes, const std::uint8_t* scales, WeightStep& out) {
  constexpr std::uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  for (std::size_t b = 0; b < kStep / 2; ++b) {
    out.even[b] = kTable[codes[b] & 15U];
    out.odd[b] = kTable[codes[b] >> 4U];
  }
  for (std::size_t lane = 0; lane < kInt8Lanes; ++lane) out.scales[lane] = kScaleTable[scales[lane / 2]];
}

#endif

void MatrixPanel8(const Panel& panel) {
  const QuantizedTensor& w = *panel.weights;
  auto* decoded = reinterpret_cast<WeightStep*>(panel.scratch);
  auto* lanes = reinterpret_cast<float*>(decoded + kPanel * kInt8Steps);
  std::fill_n(lanes, panel.m * kPanel * kInt8Lanes, 0.0F);
  const std::int64_t x_stride = panel.x_stride / static_cast<std::int64_t>(sizeof(Int8Step));
  for (std::int64_t begin = 0; begin < steps_of(w.k); begin += kInt8Steps) {
    const std::int64_t steps = std::min(kInt8Steps, steps_of(w.k) - begin);
    for (std::int64_t j = 0; j < panel.count; ++j) {
      const std::uint8_t* codes = w.codes + (panel.n + j) * w.code_stride;
      const std::uint8_t* scales = w.scales + (panel.n + j) * w.scale_stride;
      for (std::int64_t s = 0; s < steps; ++s) {
        const std::int64_t k = (begin + s) * kStep;
        WeightStep& out = decoded[j * kInt8Steps + s];
        if (k + kStep <= w.k) {
          StoreStep(codes + k / 2, scales + k / kBlock, out);
        } else {
          const Int8Tail tail(codes + k / 2, scales + k / kBlock, w.k - k);
          StoreStep(tail.codes, tail.scales, out);
        }
      }
    }
    for (std::int64_t i = 0; i < panel.m;) {
      const Int8Step* x = reinterpret_cast<const Int8Step*>(panel.x) + i * x_stride + begin;
      const bool four = i + 4 <= panel.m;
      for (std::int64_t j = 0; j < panel.count; ++j) {
        const WeightStep* column = decoded + j * kInt8Steps;
        float* to = lanes + (i * kPanel + j) * kInt8Lanes;
        if (four)
          Column8<4>(x, x_stride, column, steps, to);
        else
          Column8<1>(x, x_stride, column, steps, to);
      }
      i += four ? 4 : 1;
    }
  }
  for (std::int64_t i = 0; i < panel.m; ++i)
    for (std::int64_t j = 0; j < panel.count; ++j)
      panel.sums[i * kPanel + j] = sum_int8_lanes(lanes + (i * kPanel + j) * kInt8Lanes);
}

void Multiply8(const Panel& panel) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (panel.m == 1) return VectorPanel8(panel);
#endif
  MatrixPanel8(panel);
}

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad::kernels {

HWY_EXPORT(Multiply8);

namespace {

class Int8Row final : public CpuRow {
 public:
  using CpuRow::CpuRow;

 protected:
  void pack(std::size_t, const float* row, std::byte* packed) const override {
    auto* out = reinterpret_cast<Int8Step*>(packed);
    for (std::int64_t begin = 0; begin < k(); begin += kStep, ++out) {
      std::int8_t q[kStep] = {};
      float scales[kStep / kBlock] = {};
      for (std::int64_t b = 0; b < kStep / kBlock && begin + b * kBlock < k(); ++b)
        scales[b] = quantize_int8_block(row + begin + b * kBlock, q + b * kBlock);
      for (std::size_t i = 0; i < kStep / 2; ++i) {
        out->even[i] = q[2 * i];
        out->odd[i] = q[2 * i + 1];
      }
      for (std::size_t i = 0; i < kStep / 4; ++i)
        out->offset[i] = static_cast<std::int16_t>(12 * (q[4 * i] + q[4 * i + 1] + q[4 * i + 2] + q[4 * i + 3]));
      for (std::size_t i = 0; i < kStep / 8; ++i) out->scales[i] = scales[i / 2];
    }
  }
  std::size_t packed_bytes() const override { return static_cast<std::size_t>(steps_of(k())) * sizeof(Int8Step); }
  std::size_t scratch_bytes() const override {
    return kPanel * kInt8Steps * sizeof(WeightStep) + kMaxRows * kPanel * kInt8Lanes * sizeof(float);
  }
  void multiply(const Panel& panel) const override { HWY_DYNAMIC_DISPATCH(Multiply8)(panel); }
  // Codes are taken twice their value.
  double alpha(std::size_t group) const override { return CpuRow::alpha(group) * 0.5; }
};

}  // namespace

Result<std::unique_ptr<BoundKernel>> bind_cpu_w4a8_int8(std::span<const QuantizedTensor> weights) {
  if (Status status = check_weights(weights); !status) return status.error();
  return std::unique_ptr<BoundKernel>(std::make_unique<Int8Row>(weights));
}

}  // namespace tetrad::kernels
#endif
