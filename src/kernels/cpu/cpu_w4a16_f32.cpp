// Row cpu_w4a16_f32: activations exact as fp32, products exact, sums in fp32, dot products with k in the lanes.
// One or two rows of activations: codes are decoded in registers and the block scale is applied to partial sums of the
// block, so that the weights stream once. More rows: 12 weight rows of a chunk of k are dequantised (exact: at most 6
// significant bits) into the first-level cache, and a 4x3 tile of dot products runs over them.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cpu/rows.hpp"
#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/w4a16.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cpu_w4a16_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TETRAD_CPU_W4A16_ONCE
#define TETRAD_CPU_W4A16_ONCE
namespace tetrad::kernels {

inline constexpr std::int64_t kDepth = kW4A16Chunk;
inline constexpr std::int64_t kDense = 12;  // rows of weights dequantised at once
inline constexpr std::int64_t kLanes = 8;   // partial sums per result
// Prefetch distance along a row of codes: about 100 ns at 15 GB/s.
inline constexpr std::int64_t kAhead = 1024;

// Codes and scales of one step that lies across the end of a row, zero beyond it.
struct TailStep {
  alignas(32) std::uint8_t codes[kStep / 2] = {};
  std::uint8_t scales[kStep / kBlock] = {};
  TailStep(const std::uint8_t* c, const std::uint8_t* s, std::int64_t elements) {
    std::memcpy(codes, c, static_cast<std::size_t>(elements / 2));
    std::memcpy(scales, s, static_cast<std::size_t>(elements / kBlock));
  }
};

inline float sum_lanes(const float* v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

}  // namespace tetrad::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

// Decodes 64 codes to fp32 in kStepOrder: the two bytes of the bfloat16 of each code come from two byte look-ups.
HWY_INLINE void DecodeStep(const std::uint8_t* codes, __m256 (&w)[8]) {
  const __m256i low_table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64));
  const __m256i high_table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -128, -65, -65, -65, -64, -64, -64, -64));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i even = _mm256_and_si256(bytes, nibble);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
  const __m256i even_low = _mm256_shuffle_epi8(low_table, even);
  const __m256i even_high = _mm256_shuffle_epi8(high_table, even);
  const __m256i odd_low = _mm256_shuffle_epi8(low_table, odd);
  const __m256i odd_high = _mm256_shuffle_epi8(high_table, odd);
  const __m256i words[4] = {_mm256_unpacklo_epi8(even_low, even_high), _mm256_unpacklo_epi8(odd_low, odd_high),
                            _mm256_unpackhi_epi8(even_low, even_high), _mm256_unpackhi_epi8(odd_low, odd_high)};
  for (int i = 0; i < 4; ++i) {
    w[2 * i] = _mm256_castsi256_ps(_mm256_slli_epi32(words[i], 16));
    w[2 * i + 1] = _mm256_castsi256_ps(_mm256_and_si256(words[i], upper));
  }
}

// Scales of the blocks a (lanes 0-3) and b (lanes 4-7).
HWY_INLINE __m256 ScalePair(std::uint8_t a, std::uint8_t b) {
  return _mm256_blend_ps(_mm256_broadcast_ss(&kScaleTable[a]), _mm256_broadcast_ss(&kScaleTable[b]), 0xF0);
}

// One step of one row of weights times one or two rows of activations, added to the sums `a` and `b`.
template <bool kTwo>
HWY_INLINE void RowStep(const std::uint8_t* codes, const std::uint8_t* s, const float* x, const float* x_second,
                        __m256& a, __m256& b) {
  __m256 w[8];
  DecodeStep(codes, w);
  const __m256 first = ScalePair(s[0], s[2]);
  const __m256 second = ScalePair(s[1], s[3]);
  const auto dot = [&w](const float* from, int v) HWY_ATTR {
    __m256 sum = _mm256_mul_ps(w[v], _mm256_loadu_ps(from + 8 * v));
    sum = _mm256_fmadd_ps(w[v + 1], _mm256_loadu_ps(from + 8 * v + 8), sum);
    sum = _mm256_fmadd_ps(w[v + 2], _mm256_loadu_ps(from + 8 * v + 16), sum);
    return _mm256_fmadd_ps(w[v + 3], _mm256_loadu_ps(from + 8 * v + 24), sum);
  };
  a = _mm256_fmadd_ps(dot(x, 4), second, _mm256_fmadd_ps(dot(x, 0), first, a));
  if constexpr (kTwo) b = _mm256_fmadd_ps(dot(x_second, 4), second, _mm256_fmadd_ps(dot(x_second, 0), first, b));
}

float SumLanes(__m256 v) {
  alignas(32) float lanes[kLanes];
  _mm256_store_ps(lanes, v);
  return sum_lanes(lanes);
}

// R rows of weights times one of activations, decoded on the fly.
template <int R>
void Rows(const Panel& panel, std::int64_t j) {
  const QuantizedTensor& w = *panel.weights;
  const std::int64_t code = w.code_stride;
  const std::int64_t scale = w.scale_stride;
  const std::uint8_t* codes = w.codes + (panel.n + j) * code;
  const std::uint8_t* scales = w.scales + (panel.n + j) * scale;
  const auto* x = reinterpret_cast<const float*>(panel.x);
  const std::int64_t steps = w.k / kStep;
  // The last bytes of a row prefetch the first of the row R further on.
  const std::int64_t turn = steps - kAhead / (kStep / 2);
  __m256 sums[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_ps();
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t ahead = kAhead + (step < turn ? 0 : (R - 1) * code);
    _mm_prefetch(reinterpret_cast<const char*>(scales) + (R + step % R) * scale, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(codes) + r * code + ahead, _MM_HINT_T0);
      __m256 unused = sums[r];
      RowStep<false>(codes + r * code, scales + r * scale, x, x, sums[r], unused);
    }
    codes += kStep / 2;
    scales += kStep / kBlock;
    x += kStep;
  }
  alignas(32) float lanes[R][kLanes];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) _mm256_store_ps(lanes[r], sums[r]);
  for (int r = 0; r < R; ++r) {
    if (w.k % kStep != 0) {
      const TailStep tail(codes + r * code, scales + r * scale, w.k % kStep);
      __m256 sum = _mm256_load_ps(lanes[r]);
      __m256 unused = sum;
      RowStep<false>(tail.codes, tail.scales, x, x, sum, unused);
      _mm256_store_ps(lanes[r], sum);
    }
    panel.sums[j + r] = sum_lanes(lanes[r]);
  }
}

// One row of weights times two of activations.
void OneByTwo(const Panel& panel, std::int64_t j) {
  const QuantizedTensor& w = *panel.weights;
  const std::uint8_t* codes = w.codes + (panel.n + j) * w.code_stride;
  const std::uint8_t* scales = w.scales + (panel.n + j) * w.scale_stride;
  const auto* x = reinterpret_cast<const float*>(panel.x);
  const float* second = x + panel.x_stride / static_cast<std::int64_t>(sizeof(float));
  __m256 a = _mm256_setzero_ps();
  __m256 b = a;
  for (std::int64_t step = 0; step < w.k / kStep; ++step) {
    _mm_prefetch(reinterpret_cast<const char*>(codes) + kAhead, _MM_HINT_T0);
    RowStep<true>(codes, scales, x, second, a, b);
    codes += kStep / 2;
    scales += kStep / kBlock;
    x += kStep;
    second += kStep;
  }
  if (w.k % kStep != 0) {
    const TailStep tail(codes, scales, w.k % kStep);
    RowStep<true>(tail.codes, tail.scales, x, second, a, b);
  }
  panel.sums[j] = SumLanes(a);
  panel.sums[kPanel + j] = SumLanes(b);
}

void OneRowPanel(const Panel& panel) {
  std::int64_t j = 0;
  for (; j + 4 <= panel.count; j += 4) Rows<4>(panel, j);
  for (; j < panel.count; ++j) Rows<1>(panel, j);
}

void TwoRowPanel(const Panel& panel) {
  for (std::int64_t j = 0; j < panel.count; ++j) OneByTwo(panel, j);
}

void DequantizeStep(const std::uint8_t* codes, const std::uint8_t* s, float* out) {
  __m256 w[8];
  DecodeStep(codes, w);
  const __m256 first = ScalePair(s[0], s[2]);
  const __m256 second = ScalePair(s[1], s[3]);
  for (int v = 0; v < 4; ++v) {
    _mm256_store_ps(out + 8 * v, _mm256_mul_ps(w[v], first));
    _mm256_store_ps(out + 32 + 8 * v, _mm256_mul_ps(w[4 + v], second));
  }
}

// sums[i, j, lane] += x[i] * w[j] for M x N results over `steps` steps. Unrolled by pragma, so that the compiler sees
// constant indices and keeps `acc` in registers throughout.
template <int M, int N>
void Tile(const float* x, std::int64_t x_stride, const float* w, std::int64_t steps, float* sums) {
  __m256 acc[M][N];
  const float* rows[M];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
    rows[i] = x + i * x_stride;
#pragma GCC unroll 3
    for (int j = 0; j < N; ++j) acc[i][j] = _mm256_load_ps(sums + (i * kPanel + j) * kLanes);
  }
  for (std::int64_t p = 0; p < steps * kStep; p += kLanes) {
    __m256 b[N];
#pragma GCC unroll 3
    for (int j = 0; j < N; ++j) b[j] = _mm256_load_ps(w + j * kDepth + p);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      const __m256 a = _mm256_loadu_ps(rows[i] + p);
#pragma GCC unroll 3
      for (int j = 0; j < N; ++j) acc[i][j] = _mm256_fmadd_ps(a, b[j], acc[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < N; ++j) _mm256_store_ps(sums + (i * kPanel + j) * kLanes, acc[i][j]);
}

// Whole steps into kStepOrder: transposes four by four within 128-bit lanes.
void PackSteps(const float* x, std::int64_t steps, float* out) {
  for (std::int64_t s = 0; s < steps; ++s, x += kStep, out += kStep)
    for (int half = 0; half < 2; ++half) {
      const auto load = [&](int at) HWY_ATTR {
        const float* from = x + 16 * half + at;
        return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + 32), 1);
      };
      const __m256 a = load(0);
      const __m256 b = load(4);
      const __m256 c = load(8);
      const __m256 d = load(12);
      const __m256 ab_low = _mm256_unpacklo_ps(a, b);
      const __m256 cd_low = _mm256_unpacklo_ps(c, d);
      const __m256 ab_high = _mm256_unpackhi_ps(a, b);
      const __m256 cd_high = _mm256_unpackhi_ps(c, d);
      float* to = out + 32 * half;
      _mm256_storeu_ps(to, _mm256_shuffle_ps(ab_low, cd_low, 0x44));
      _mm256_storeu_ps(to + 8, _mm256_shuffle_ps(ab_high, cd_high, 0x44));
      _mm256_storeu_ps(to + 16, _mm256_shuffle_ps(ab_low, cd_low, 0xEE));
      _mm256_storeu_ps(to + 24, _mm256_shuffle_ps(ab_high, cd_high, 0xEE));
    }
}

#else

void PackSteps(const float* x, std::int64_t steps, float* out) {
  for (std::int64_t s = 0; s < steps; ++s)
    for (std::size_t i = 0; i < kStep; ++i)
      out[s * kStep + static_cast<std::int64_t>(i)] = x[s * kStep + kStepOrder[i]];
}

void DequantizeStep(const std::uint8_t* codes, const std::uint8_t* s, float* out) {
  for (std::size_t i = 0; i < kStep; ++i) {
    const std::size_t e = kStepOrder[i];
    const unsigned code = e % 2 == 0 ? codes[e / 2] & 15U : codes[e / 2] >> 4U;
    out[i] = kCodeTable[code] * kScaleTable[s[e / kBlock]];
  }
}

template <int M, int N>
void Tile(const float* x, std::int64_t x_stride, const float* w, std::int64_t steps, float* sums) {
  const hwy::HWY_NAMESPACE::CappedTag<float, kLanes> d;
  const auto lanes = static_cast<std::int64_t>(hwy::HWY_NAMESPACE::Lanes(d));
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      for (std::int64_t part = 0; part < kLanes; part += lanes) {
        float* to = sums + (i * kPanel + j) * kLanes + part;
        auto acc = hwy::HWY_NAMESPACE::LoadU(d, to);
        for (std::int64_t p = part; p < steps * kStep; p += kLanes)
          acc = hwy::HWY_NAMESPACE::MulAdd(hwy::HWY_NAMESPACE::LoadU(d, x + i * x_stride + p),
                                           hwy::HWY_NAMESPACE::LoadU(d, w + j * kDepth + p), acc);
        hwy::HWY_NAMESPACE::StoreU(acc, d, to);
      }
}

#endif

template <int M>
void TileRow(const float* x, std::int64_t x_stride, const float* w, std::int64_t steps, std::int64_t count,
             float* sums) {
  std::int64_t j = 0;
  for (; j + 3 <= count; j += 3) Tile<M, 3>(x, x_stride, w + j * kDepth, steps, sums + j * kLanes);
  if (count - j == 2) Tile<M, 2>(x, x_stride, w + j * kDepth, steps, sums + j * kLanes);
  if (count - j == 1) Tile<M, 1>(x, x_stride, w + j * kDepth, steps, sums + j * kLanes);
}

// `count` rows of weights from `row` on, elements [k, k + kDepth) of each.
void Dequantize(const QuantizedTensor& w, std::int64_t row, std::int64_t count, std::int64_t k, float* dense) {
  for (std::int64_t j = 0; j < count; ++j) {
    const std::uint8_t* codes = w.codes + (row + j) * w.code_stride;
    const std::uint8_t* scales = w.scales + (row + j) * w.scale_stride;
    float* out = dense + j * kDepth;
    for (std::int64_t at = k; at < std::min(k + kDepth, w.k); at += kStep, out += kStep) {
      if (at + kStep <= w.k) {
        DequantizeStep(codes + at / 2, scales + at / kBlock, out);
      } else {
        const TailStep tail(codes + at / 2, scales + at / kBlock, w.k - at);
        DequantizeStep(tail.codes, tail.scales, out);
      }
    }
  }
}

void MatrixPanel(const Panel& panel) {
  const QuantizedTensor& w = *panel.weights;
  auto* dense = reinterpret_cast<float*>(panel.scratch);
  float* lanes = dense + kDense * kDepth;
  std::fill_n(lanes, panel.m * kPanel * kLanes, 0.0F);
  const std::int64_t x_stride = panel.x_stride / static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t k = 0; k < w.k; k += kDepth) {
    const std::int64_t steps = steps_of(std::min(kDepth, w.k - k));
    const std::byte* chunk = panel.x + k / panel.chunk * panel.chunk_bytes;
    const float* x = reinterpret_cast<const float*>(chunk) + k % panel.chunk;
    for (std::int64_t j = 0; j < panel.count; j += kDense) {
      const std::int64_t count = std::min(kDense, panel.count - j);
      Dequantize(w, panel.n + j, count, k, dense);
      const auto rows = [&]<int M>(std::int64_t i) {
        TileRow<M>(x + i * x_stride, x_stride, dense, steps, count, lanes + (i * kPanel + j) * kLanes);
      };
      std::int64_t i = 0;
      for (; i + 4 <= panel.m; i += 4) rows.template operator()<4>(i);
      if (panel.m - i == 3) rows.template operator()<3>(i);
      if (panel.m - i == 2) rows.template operator()<2>(i);
      if (panel.m - i == 1) rows.template operator()<1>(i);
    }
  }
  for (std::int64_t i = 0; i < panel.m; ++i)
    for (std::int64_t j = 0; j < panel.count; ++j)
      panel.sums[i * kPanel + j] = sum_lanes(lanes + (i * kPanel + j) * kLanes);
}

void Multiply(const Panel& panel) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (panel.m == 1) return OneRowPanel(panel);
  if (panel.m == 2) return TwoRowPanel(panel);
#endif
  MatrixPanel(panel);
}

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad::kernels {

HWY_EXPORT(Multiply);
HWY_EXPORT(PackSteps);

std::size_t w4a16_packed_bytes(std::int64_t count) {
  return static_cast<std::size_t>(steps_of(count) * kStep) * sizeof(float);
}

void w4a16_pack(const float* x, std::int64_t count, std::byte* packed) {
  auto* out = reinterpret_cast<float*>(packed);
  HWY_DYNAMIC_DISPATCH(PackSteps)(x, count / kStep, out);
  if (const std::int64_t rest = count % kStep; rest != 0) {
    float step[kStep] = {};
    std::copy_n(x + count - rest, rest, step);
    HWY_DYNAMIC_DISPATCH(PackSteps)(step, 1, out + count - rest);
  }
}

std::size_t w4a16_scratch_bytes() {
  return static_cast<std::size_t>(kDense * kDepth + kMaxRows * kPanel * kLanes) * sizeof(float);
}

void w4a16_multiply(const Panel& panel) { HWY_DYNAMIC_DISPATCH(Multiply)(panel); }

namespace {

class ExactRow final : public CpuRow {
 public:
  using CpuRow::CpuRow;

 protected:
  void pack(std::size_t, const float* x, std::int64_t count, std::byte* packed) const override {
    w4a16_pack(x, count, packed);
  }
  std::size_t packed_bytes(std::int64_t count) const override { return w4a16_packed_bytes(count); }
  std::int64_t chunk() const override { return kW4A16Chunk; }
  std::size_t scratch_bytes() const override { return w4a16_scratch_bytes(); }
  void multiply(const Panel& panel) const override { w4a16_multiply(panel); }
};

}  // namespace

Result<std::unique_ptr<BoundKernel>> bind_cpu_w4a16_f32(std::span<const QuantizedTensor> weights) {
  if (Status status = check_weights(weights); !status) return status.error();
  return std::unique_ptr<BoundKernel>(std::make_unique<ExactRow>(weights));
}

}  // namespace tetrad::kernels
#endif
