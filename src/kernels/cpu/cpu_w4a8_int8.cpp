// Row cpu_w4a8_int8: activations rounded to int8 per 16 along k, exact integer products within a block, sums of blocks
// in fp32. One partial sum per lane for every m, in the same order, so a row has the same bits whatever rows stand
// beside it.
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

#include "kernels/cpu/bytes-inl.hpp"

#ifndef TETRAD_CPU_W4A8_ONCE
#define TETRAD_CPU_W4A8_ONCE
namespace tetrad::kernels {

inline constexpr std::int64_t kInt8Chunk = 1024;  // elements of k per chunk of packed activations
inline constexpr std::int64_t kInt8Decoded = 16;  // rows of weights decoded at once, into the first-level cache
inline constexpr std::int64_t kInt8Steps = kInt8Chunk / kByteStep;

struct alignas(32) Int8Step {
  std::int8_t q[4][4 * kByteLanes];
  std::int16_t offset[2 * kByteLanes];  // 12 * (sum of the eight activations of 16-bit lane i)
  float scales[kByteLanes];
};

// 128 weights of one row in the same order.
struct alignas(32) WeightStep {
  std::uint8_t u[4][4 * kByteLanes];
  float scales[kByteLanes];
};

}  // namespace tetrad::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

HWY_INLINE Weights128 DecodeInt8(const std::uint8_t* codes, const std::uint8_t* scales) {
  Weights128 w = DecodeBytes(codes, scales);
  w.scales = _mm256_mul_ps(w.scales, _mm256_set1_ps(0x1p120F));
  return w;
}

HWY_INLINE __m256 DotInt8(const Weights128& w, const Int8Step& x, __m256 sum) {
  const __m256i halves = _mm256_sub_epi16(DotBytes(w, x.q), LoadBytes(x.offset));
  const __m256 dots = _mm256_cvtepi32_ps(_mm256_madd_epi16(halves, _mm256_set1_epi16(1)));
  return _mm256_fmadd_ps(dots, _mm256_mul_ps(w.scales, _mm256_load_ps(x.scales)), sum);
}

// R rows of weights from `j` on times row i of activations, which is one chunk.
template <int R>
void Rows8(const Panel& panel, std::int64_t i, std::int64_t j) {
  const QuantizedTensor& w = *panel.weights;
  const auto* x = reinterpret_cast<const Int8Step*>(panel.x + i * panel.x_stride);
  const std::int64_t code = w.code_stride;
  const std::int64_t scale = w.scale_stride;
  const std::uint8_t* codes = w.codes + (panel.n + j) * code;
  const std::uint8_t* scales = w.scales + (panel.n + j) * scale;
  const std::int64_t steps = w.k / kByteStep;
  // The last bytes of a row prefetch the first of the row R further on.
  const std::int64_t turn = steps - kByteAhead / (kByteStep / 2);
  __m256 sums[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_ps();
  for (std::int64_t step = 0; step < steps; ++step, ++x) {
    const std::int64_t ahead = kByteAhead + (step < turn ? 0 : (R - 1) * code);
    const std::int64_t scale_row = R + step % R;
    _mm_prefetch(reinterpret_cast<const char*>(scales) + scale_row * scale, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(codes) + r * code + ahead, _MM_HINT_T0);
      sums[r] = DotInt8(DecodeInt8(codes + r * code, scales + r * scale), *x, sums[r]);
    }
    codes += kByteStep / 2;
    scales += kByteStep / kBlock;
  }
  alignas(32) float lanes[R][kByteLanes];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) _mm256_store_ps(lanes[r], sums[r]);
  for (int r = 0; r < R; ++r) {
    if (w.k % kByteStep != 0) {
      const ByteTail tail(codes + r * code, scales + r * scale, w.k % kByteStep);
      _mm256_store_ps(lanes[r], DotInt8(DecodeInt8(tail.codes, tail.scales), *x, _mm256_load_ps(lanes[r])));
    }
    panel.sums[i * kPanel + j + r] = sum_byte_lanes(lanes[r]);
  }
}

// Row `i` of activations; the weights of a panel stay in the second-level cache for the next.
void VectorPanel8(const Panel& panel, std::int64_t i) {
  std::int64_t j = 0;
  for (; j + 4 <= panel.count; j += 4) Rows8<4>(panel, i, j);
  for (; j < panel.count; ++j) Rows8<1>(panel, i, j);
}

// sums[i, lane] += x[i] * w over `steps` steps, for M rows of activations and one row of weights. Unrolled by pragma,
// so that the compiler sees constant indices and keeps `acc` in registers throughout.
template <int M>
void Column8(const Int8Step* x, std::int64_t x_stride, const WeightStep* w, std::int64_t steps, float* sums) {
  __m256 acc[M];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) acc[i] = _mm256_load_ps(sums + i * kPanel * kByteLanes);
  for (std::int64_t s = 0; s < steps; ++s) {
    const Weights128 step = {LoadBytes(w[s].u[0]), LoadBytes(w[s].u[1]), LoadBytes(w[s].u[2]), LoadBytes(w[s].u[3]),
                             _mm256_load_ps(w[s].scales)};
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) acc[i] = DotInt8(step, x[i * x_stride + s], acc[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) _mm256_store_ps(sums + i * kPanel * kByteLanes, acc[i]);
}

void StoreStep(const std::uint8_t* codes, const std::uint8_t* scales, WeightStep& out) {
  const Weights128 step = DecodeInt8(codes, scales);
  const __m256i parts[4] = {step.a, step.b, step.c, step.d};
  for (int v = 0; v < 4; ++v) _mm256_store_si256(reinterpret_cast<__m256i*>(out.u[v]), parts[v]);
  _mm256_store_ps(out.scales, step.scales);
}

// quantize_int8_block() in vectors, then the bytes in the order of byte_element().
HWY_INLINE __m128i QuantizeBlock(const float* x, float& scale) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  const __m256 low = _mm256_loadu_ps(x);
  const __m256 high = _mm256_loadu_ps(x + 8);
  const __m256i larger = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(low), magnitude),
                                          _mm256_and_si256(_mm256_castps_si256(high), magnitude));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(larger), _mm256_extracti128_si256(larger, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  const std::int32_t largest = _mm_cvtsi128_si32(four);
  scale = std::bit_cast<float>(largest) / kInt8Largest;
  if (largest >= kInfinityBits || scale == 0.0F) {
    scale = largest >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    return _mm_setzero_si128();
  }
  const __m256 divisor = _mm256_set1_ps(scale);
  const __m256 round = _mm256_set1_ps(kRoundToInteger);
  const auto nearest = [&](__m256 v) HWY_ATTR {
    const __m256i shifted = _mm256_castps_si256(_mm256_add_ps(_mm256_div_ps(v, divisor), round));
    const __m256i whole = _mm256_sub_epi32(shifted, _mm256_castps_si256(round));
    return _mm256_min_epi32(_mm256_max_epi32(whole, _mm256_set1_epi32(-127)), _mm256_set1_epi32(127));
  };
  return OrderBytes(nearest(low), nearest(high));
}

void PackInt8(const float* x, std::int64_t steps, Int8Step* out) {
  for (; steps > 0; --steps, ++out, x += kByteStep) {
    for (std::size_t lane = 0; lane < kByteLanes; ++lane) {
      alignas(16) std::int8_t q[kBlock];
      _mm_store_si128(reinterpret_cast<__m128i*>(q), QuantizeBlock(x + kByteBlock[lane] * kBlock, out->scales[lane]));
      for (std::size_t v = 0; v < 4; ++v) std::memcpy(out->q[v] + 4 * lane, q + 4 * v, 4);
    }
    const __m256i twelve = _mm256_set1_epi8(12);
    __m256i sum = _mm256_setzero_si256();
    for (const auto& part : out->q) sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(twelve, LoadBytes(part)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out->offset), sum);
  }
}

#else

template <int M>
void Column8(const Int8Step* x, std::int64_t x_stride, const WeightStep* w, std::int64_t steps, float* sums) {
  for (int i = 0; i < M; ++i)
    for (std::int64_t s = 0; s < steps; ++s) {
      const Int8Step& a = x[i * x_stride + s];
      for (std::size_t lane = 0; lane < kByteLanes; ++lane) {
        int dot = -a.offset[2 * lane] - a.offset[2 * lane + 1];
        for (std::size_t v = 0; v < 4; ++v)
          for (std::size_t b = 4 * lane; b < 4 * lane + 4; ++b) dot += w[s].u[v][b] * a.q[v][b];
        sums[i * kPanel * kByteLanes + static_cast<std::int64_t>(lane)] +=
            static_cast<float>(dot) * (w[s].scales[lane] * a.scales[lane]);
      }
    }
}

void StoreStep(const std::uint8_t* codes, const std::uint8_t* scales, WeightStep& out) {
  constexpr std::uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  for (std::size_t lane = 0; lane < kByteLanes; ++lane) {
    const std::uint8_t* block = codes + kByteBlock[lane] * kBlock / 2;
    for (std::size_t v = 0; v < 4; ++v)
      for (std::size_t b = 0; b < 4; ++b) {
        const std::size_t e = byte_element(v, b);
        out.u[v][4 * lane + b] = kTable[block[e / 2] >> (e % 2 * 4) & 15U];
      }
    out.scales[lane] = kScaleTable[scales[kByteBlock[lane]]];
  }
}

void PackInt8(const float* x, std::int64_t steps, Int8Step* out) {
  for (; steps > 0; --steps, ++out, x += kByteStep)
    for (std::size_t lane = 0; lane < kByteLanes; ++lane) {
      std::int8_t q[kBlock];
      out->scales[lane] = quantize_int8_block(x + kByteBlock[lane] * kBlock, q);
      int sums[2] = {};
      for (std::size_t v = 0; v < 4; ++v)
        for (std::size_t b = 0; b < 4; ++b) {
          const std::int8_t value = q[byte_element(v, b)];
          out->q[v][4 * lane + b] = value;
          sums[b / 2] += value;
        }
      for (std::size_t i = 0; i < 2; ++i) out->offset[2 * lane + i] = static_cast<std::int16_t>(12 * sums[i]);
    }
}

#endif

// `count` rows of weights from `row` on, elements [k, k + kInt8Chunk) of each.
void DecodeRows(const QuantizedTensor& w, std::int64_t row, std::int64_t count, std::int64_t k, WeightStep* decoded) {
  for (std::int64_t j = 0; j < count; ++j) {
    const std::uint8_t* codes = w.codes + (row + j) * w.code_stride;
    const std::uint8_t* scales = w.scales + (row + j) * w.scale_stride;
    WeightStep* out = decoded + j * kInt8Steps;
    for (std::int64_t at = k; at < std::min(k + kInt8Chunk, w.k); at += kByteStep, ++out) {
      if (at + kByteStep <= w.k) {
        StoreStep(codes + at / 2, scales + at / kBlock, *out);
      } else {
        const ByteTail tail(codes + at / 2, scales + at / kBlock, w.k - at);
        StoreStep(tail.codes, tail.scales, *out);
      }
    }
  }
}

void MatrixPanel8(const Panel& panel) {
  const QuantizedTensor& w = *panel.weights;
  auto* decoded = reinterpret_cast<WeightStep*>(panel.scratch);
  auto* lanes = reinterpret_cast<float*>(decoded + kInt8Decoded * kInt8Steps);
  std::fill_n(lanes, panel.m * kPanel * kByteLanes, 0.0F);
  const std::int64_t x_stride = panel.x_stride / static_cast<std::int64_t>(sizeof(Int8Step));
  for (std::int64_t k = 0; k < w.k; k += kInt8Chunk) {
    const std::int64_t steps = byte_steps(std::min(kInt8Chunk, w.k - k));
    const auto* x =
        reinterpret_cast<const Int8Step*>(panel.x + k / panel.chunk * panel.chunk_bytes) + k % panel.chunk / kByteStep;
    for (std::int64_t first = 0; first < panel.count; first += kInt8Decoded) {
      const std::int64_t last = std::min(first + kInt8Decoded, panel.count);
      DecodeRows(w, panel.n + first, last - first, k, decoded);
      for (std::int64_t i = 0; i < panel.m;) {
        const bool four = i + 4 <= panel.m;
        for (std::int64_t j = first; j < last; ++j) {
          const WeightStep* column = decoded + (j - first) * kInt8Steps;
          float* to = lanes + (i * kPanel + j) * kByteLanes;
          if (four)
            Column8<4>(x + i * x_stride, x_stride, column, steps, to);
          else
            Column8<1>(x + i * x_stride, x_stride, column, steps, to);
        }
        i += four ? 4 : 1;
      }
    }
  }
  for (std::int64_t i = 0; i < panel.m; ++i)
    for (std::int64_t j = 0; j < panel.count; ++j)
      panel.sums[i * kPanel + j] = sum_byte_lanes(lanes + (i * kPanel + j) * kByteLanes);
}

void Multiply8(const Panel& panel) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (panel.m <= kVectorRows) {
    for (std::int64_t i = 0; i < panel.m; ++i) VectorPanel8(panel, i);
    return;
  }
#endif
  MatrixPanel8(panel);
}

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad::kernels {

HWY_EXPORT(Multiply8);
HWY_EXPORT(PackInt8);

namespace {

class Int8Row final : public CpuRow {
 public:
  using CpuRow::CpuRow;

 protected:
  void pack(std::size_t, const float* x, std::int64_t count, std::int64_t, std::byte* packed) const override {
    auto* out = reinterpret_cast<Int8Step*>(packed);
    HWY_DYNAMIC_DISPATCH(PackInt8)(x, count / kByteStep, out);
    if (const std::int64_t rest = count % kByteStep; rest != 0) {
      float step[kByteStep] = {};
      std::copy_n(x + count - rest, rest, step);
      HWY_DYNAMIC_DISPATCH(PackInt8)(step, 1, out + count / kByteStep);
    }
  }
  std::size_t packed_bytes(std::int64_t count, std::int64_t) const override {
    return static_cast<std::size_t>(byte_steps(count)) * sizeof(Int8Step);
  }
  std::size_t scratch_bytes() const override {
    return kInt8Decoded * kInt8Steps * sizeof(WeightStep) + kMaxRows * kPanel * kByteLanes * sizeof(float);
  }
  std::int64_t chunk() const override { return kInt8Chunk; }
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
