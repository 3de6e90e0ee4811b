// Row cpu_w4a16_f32: activations exact as fp32, products exact, sums in fp32, dot products with k in the lanes.
// One or two rows of activations: codes are decoded in registers and the block scale is applied to partial sums of the
// block, so that the weights stream once. More rows: a panel of 24 weight rows times 512 elements is dequantised
// (exact: at most 6 significant bits) into the second-level cache, and a 4x3 tile of dot products runs over it.
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

inline constexpr std::int64_t kDepthSteps = 8;  // steps of k per dequantised panel
inline constexpr std::int64_t kDepth = kDepthSteps * kStep;
inline constexpr std::int64_t kLanes = 8;  // partial sums per result
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

template <int R, int M>
HWY_INLINE void VectorStep(const std::uint8_t* const* codes, const std::uint8_t* const* scales, const float* const* x,
                           __m256 (&sums)[R][M]) {
  for (int r = 0; r < R; ++r) {
    __m256 w[8];
    DecodeStep(codes[r], w);
    const std::uint8_t* s = scales[r];
    const __m256 first = ScalePair(s[0], s[2]);
    const __m256 second = ScalePair(s[1], s[3]);
    for (int i = 0; i < M; ++i) {
      __m256 p = _mm256_mul_ps(w[0], _mm256_loadu_ps(x[i]));
      __m256 q = _mm256_mul_ps(w[4], _mm256_loadu_ps(x[i] + 32));
      for (int v = 1; v < 4; ++v) {
        p = _mm256_fmadd_ps(w[v], _mm256_loadu_ps(x[i] + 8 * v), p);
        q = _mm256_fmadd_ps(w[4 + v], _mm256_loadu_ps(x[i] + 32 + 8 * v), q);
      }
      sums[r][i] = _mm256_fmadd_ps(p, first, sums[r][i]);
      sums[r][i] = _mm256_fmadd_ps(q, second, sums[r][i]);
    }
  }
}

// R rows of weights times M rows of activations, decoded on the fly.
template <int R, int M>
void VectorRows(const Panel& panel, std::int64_t j) {
  const QuantizedTensor& w = *panel.weights;
  const std::uint8_t* codes[R];
  const std::uint8_t* scales[R];
  const float* x[M];
  __m256 sums[R][M];
  for (int r = 0; r < R; ++r) {
    codes[r] = w.codes + (panel.n + j + r) * w.code_stride;
    scales[r] = w.scales + (panel.n + j + r) * w.scale_stride;
    for (int i = 0; i < M; ++i) sums[r][i] = _mm256_setzero_ps();
  }
  for (int i = 0; i < M; ++i) x[i] = reinterpret_cast<const float*>(panel.x) + i * steps_of(w.k) * kStep;
  for (std::int64_t step = 0; step < w.k / kStep; ++step) {
    VectorStep<R, M>(codes, scales, x, sums);
    for (int r = 0; r < R; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(codes[r]) + kAhead, _MM_HINT_T0);
      codes[r] += kStep / 2;
      scales[r] += kStep / kBlock;
    }
    for (int i = 0; i < M; ++i) x[i] += kStep;
  }
  if (w.k % kStep != 0) {
    for (int r = 0; r < R; ++r) {
      const TailStep tail(codes[r], scales[r], w.k % kStep);
      const std::uint8_t* const tail_codes[1] = {tail.codes};
      const std::uint8_t* const tail_scales[1] = {tail.scales};
      __m256 row[1][M];
      for (int i = 0; i < M; ++i) row[0][i] = sums[r][i];
      VectorStep<1, M>(tail_codes, tail_scales, x, row);
      for (int i = 0; i < M; ++i) sums[r][i] = row[0][i];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < M; ++i) {
      alignas(32) float lanes[kLanes];
      _mm256_store_ps(lanes, sums[r][i]);
      panel.sums[i * kPanel + j + r] = sum_lanes(lanes);
    }
}

template <int M>
void VectorPanel(const Panel& panel) {
  constexpr int kRows = M == 1 ? 4 : 2;
  std::int64_t j = 0;
  for (; j + kRows <= panel.count; j += kRows) VectorRows<kRows, M>(panel, j);
  for (; j < panel.count; ++j) VectorRows<1, M>(panel, j);
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

// sums[i, j, lane] += x[i] * w[j] for M x N results over `steps` steps.
template <int M, int N>
void Tile(const float* x, std::int64_t x_stride, const float* w, std::int64_t steps, float* sums) {
  __m256 acc[M][N];
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) acc[i][j] = _mm256_load_ps(sums + (i * kPanel + j) * kLanes);
  const float* rows[M];
  for (int i = 0; i < M; ++i) rows[i] = x + i * x_stride;
  for (std::int64_t p = 0; p < steps * kStep; p += kLanes) {
    __m256 b[N];
    for (int j = 0; j < N; ++j) b[j] = _mm256_load_ps(w + j * kDepth + p);
    for (int i = 0; i < M; ++i) {
      const __m256 a = _mm256_loadu_ps(rows[i] + p);
      for (int j = 0; j < N; ++j) acc[i][j] = _mm256_fmadd_ps(a, b[j], acc[i][j]);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) _mm256_store_ps(sums + (i * kPanel + j) * kLanes, acc[i][j]);
}

#else

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

void MatrixPanel(const Panel& panel) {
  const QuantizedTensor& w = *panel.weights;
  auto* dense = reinterpret_cast<float*>(panel.scratch);
  float* lanes = dense + kPanel * kDepth;
  std::fill_n(lanes, panel.m * kPanel * kLanes, 0.0F);
  const std::int64_t x_stride = steps_of(w.k) * kStep;
  for (std::int64_t begin = 0; begin < steps_of(w.k); begin += kDepthSteps) {
    const std::int64_t steps = std::min(kDepthSteps, steps_of(w.k) - begin);
    for (std::int64_t j = 0; j < panel.count; ++j) {
      const std::uint8_t* codes = w.codes + (panel.n + j) * w.code_stride;
      const std::uint8_t* scales = w.scales + (panel.n + j) * w.scale_stride;
      for (std::int64_t s = 0; s < steps; ++s) {
        const std::int64_t k = (begin + s) * kStep;
        float* out = dense + j * kDepth + s * kStep;
        if (k + kStep <= w.k) {
          DequantizeStep(codes + k / 2, scales + k / kBlock, out);
        } else {
          const TailStep tail(codes + k / 2, scales + k / kBlock, w.k - k);
          DequantizeStep(tail.codes, tail.scales, out);
        }
      }
    }
    const float* x = reinterpret_cast<const float*>(panel.x) + begin * kStep;
    std::int64_t i = 0;
    for (; i + 4 <= panel.m; i += 4)
      TileRow<4>(x + i * x_stride, x_stride, dense, steps, panel.count, lanes + i * kPanel * kLanes);
    const std::int64_t rest = panel.m - i;
    x += i * x_stride;
    float* to = lanes + i * kPanel * kLanes;
    if (rest == 3) TileRow<3>(x, x_stride, dense, steps, panel.count, to);
    if (rest == 2) TileRow<2>(x, x_stride, dense, steps, panel.count, to);
    if (rest == 1) TileRow<1>(x, x_stride, dense, steps, panel.count, to);
  }
  for (std::int64_t i = 0; i < panel.m; ++i)
    for (std::int64_t j = 0; j < panel.count; ++j)
      panel.sums[i * kPanel + j] = sum_lanes(lanes + (i * kPanel + j) * kLanes);
}

void Multiply(const Panel& panel) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (panel.m == 1) return VectorPanel<1>(panel);
  if (panel.m == 2) return VectorPanel<2>(panel);
#endif
  MatrixPanel(panel);
}

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad::kernels {

HWY_EXPORT(Multiply);

std::size_t w4a16_packed_bytes(std::int64_t k) { return static_cast<std::size_t>(steps_of(k) * kStep) * sizeof(float); }

void w4a16_pack(const float* row, std::int64_t k, std::byte* packed) {
  auto* out = reinterpret_cast<float*>(packed);
  for (std::int64_t begin = 0; begin < k; begin += kStep) {
    float step[kStep] = {};
    std::copy_n(row + begin, std::min(kStep, k - begin), step);
    for (std::size_t i = 0; i < kStep; ++i) out[begin + static_cast<std::int64_t>(i)] = step[kStepOrder[i]];
  }
}

std::size_t w4a16_scratch_bytes() {
  return static_cast<std::size_t>(kPanel * kDepth + kMaxRows * kPanel * kLanes) * sizeof(float);
}

void w4a16_multiply(const Panel& panel) { HWY_DYNAMIC_DISPATCH(Multiply)(panel); }

namespace {

class ExactRow final : public CpuRow {
 public:
  using CpuRow::CpuRow;

 protected:
  void pack(std::size_t, const float* row, std::byte* packed) const override { w4a16_pack(row, k(), packed); }
  std::size_t packed_bytes() const override { return w4a16_packed_bytes(k()); }
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
