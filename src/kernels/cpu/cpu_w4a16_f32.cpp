// Row cpu_w4a16_f32: activations exact, products exact, sums in fp32. Up to kVectorRows rows of activations take the
// integer planes of planes-inl.hpp, one by one, while the weights stream. More rows: 16 rows of weights of a chunk of k
// are dequantised (exact: at most 6 significant bits) into the first-level cache with n in the lanes, and tiles of 6x16
// results run over them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/cpu/rows.hpp"
#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/w4a16.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cpu_w4a16_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/planes-inl.hpp"

#ifndef TETRAD_CPU_W4A16_ONCE
#define TETRAD_CPU_W4A16_ONCE
namespace tetrad::kernels {

inline constexpr std::int64_t kDense = 16;      // rows of weights dequantised at once
inline constexpr std::int64_t kDenseStep = 64;  // elements of k dequantised at once: 32 bytes of codes, 4 block scales
inline constexpr int kTileRows = 6;             // rows of activations per tile

static_assert(kPanel % kDense == 0);
static_assert(kW4A16Chunk % kDenseStep == 0);

}  // namespace tetrad::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

// Row of weights in slot s of the byte transposition; with it the even and odd words of four slots are rows in order.
constexpr std::int64_t SlotRow(std::int64_t s) { return 8 * (s / 8) + 4 * (s % 2) + s % 8 / 2; }

// codes[s], scales[s]: 32 bytes and 4 block scales of row s. dense[k * kDense + row] for 64 elements of k.
void DequantizeStep(const std::uint8_t* const (&codes)[kDense], const std::uint8_t* const (&scales)[kDense],
                    float* dense) {
  // Bytes (slot, column) of each 128-bit lane change places in four perfect shuffles.
  __m256i a[kDense];
  __m256i b[kDense];
  for (std::size_t s = 0; s < kDense; ++s)
    a[s] = _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(codes[static_cast<std::size_t>(SlotRow(static_cast<std::int64_t>(s)))]));
  const auto shuffle = [](const __m256i* from, __m256i* to) HWY_ATTR {
#pragma GCC unroll 8
    for (int i = 0; i < kDense / 2; ++i) {
      to[2 * i] = _mm256_unpacklo_epi8(from[i], from[i + kDense / 2]);
      to[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[i + kDense / 2]);
    }
  };
  shuffle(a, b);
  shuffle(b, a);
  shuffle(a, b);
  shuffle(b, a);

  alignas(32) float values[4][kDense];
  for (std::size_t r = 0; r < kDense; ++r)
    for (std::size_t block = 0; block < 4; ++block) values[block][r] = kScaleTable[scales[r][block]];

  // The two bytes of the bfloat16 of each code come from two byte look-ups.
  const __m256i low_table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64));
  const __m256i high_table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -128, -65, -65, -65, -64, -64, -64, -64));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  for (std::size_t half = 0; half < 2; ++half) {
    // Lanes 0-3: the block of columns 0-15, lanes 4-7: that of columns 32-47 further on.
    __m256 scale[4];
    for (std::size_t q = 0; q < 4; ++q)
      scale[q] = _mm256_set_m128(_mm_load_ps(values[2 + half] + 4 * q), _mm_load_ps(values[half] + 4 * q));
    for (std::size_t c = 8 * half; c < 8 * half + 8; ++c)
      for (std::size_t odd = 0; odd < 2; ++odd) {
        const __m256i index = _mm256_and_si256(odd == 0 ? a[c] : _mm256_srli_epi16(a[c], 4), nibble);
        const __m256i low = _mm256_shuffle_epi8(low_table, index);
        const __m256i high = _mm256_shuffle_epi8(high_table, index);
        const __m256i first = _mm256_unpacklo_epi8(low, high);
        const __m256i last = _mm256_unpackhi_epi8(low, high);
        const __m256i words[4] = {_mm256_slli_epi32(first, 16), _mm256_and_si256(first, upper),
                                  _mm256_slli_epi32(last, 16), _mm256_and_si256(last, upper)};
        float* to = dense + (2 * c + odd) * kDense;
        for (std::size_t q = 0; q < 4; ++q) {
          const __m256 w = _mm256_mul_ps(_mm256_castsi256_ps(words[q]), scale[q]);
          _mm_store_ps(to + 4 * q, _mm256_castps256_ps128(w));
          _mm_store_ps(to + 32 * kDense + 4 * q, _mm256_extractf128_ps(w, 1));
        }
      }
  }
}

// sums[i, j] += sum over k of x[i, k] * dense[k, j] for M x kDense results. Unrolled by pragma, so that the compiler
// sees constant indices and keeps `acc` in registers throughout.
template <int M>
void Tile(const float* x, std::int64_t x_stride, const float* dense, std::int64_t depth, float* sums) {
  __m256 acc[M][2];
#pragma GCC unroll 6
  for (int i = 0; i < M; ++i) acc[i][0] = acc[i][1] = _mm256_setzero_ps();
  for (std::int64_t p = 0; p < depth; ++p, dense += kDense, ++x) {
    const __m256 b0 = _mm256_load_ps(dense);
    const __m256 b1 = _mm256_load_ps(dense + 8);
#pragma GCC unroll 6
    for (int i = 0; i < M; ++i) {
      const __m256 a = _mm256_broadcast_ss(x + i * x_stride);
      acc[i][0] = _mm256_fmadd_ps(a, b0, acc[i][0]);
      acc[i][1] = _mm256_fmadd_ps(a, b1, acc[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      float* to = sums + i * kPanel + 8 * v;
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), acc[i][v]));
    }
}

#else

void DequantizeStep(const std::uint8_t* const (&codes)[kDense], const std::uint8_t* const (&scales)[kDense],
                    float* dense) {
  for (std::size_t r = 0; r < kDense; ++r)
    for (std::size_t e = 0; e < kDenseStep; ++e) {
      const unsigned code = e % 2 == 0 ? codes[r][e / 2] & 15U : codes[r][e / 2] >> 4U;
      dense[e * kDense + r] = kCodeTable[code] * kScaleTable[scales[r][e / kBlock]];
    }
}

template <int M>
void Tile(const float* x, std::int64_t x_stride, const float* dense, std::int64_t depth, float* sums) {
  float acc[M][kDense] = {};
  for (std::int64_t p = 0; p < depth; ++p)
    for (int i = 0; i < M; ++i)
      for (std::int64_t j = 0; j < kDense; ++j) acc[i][j] += x[i * x_stride + p] * dense[p * kDense + j];
  for (int i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < kDense; ++j) sums[i * kPanel + j] += acc[i][j];
}

#endif

// `count` rows of weights from `row` on, elements [k, k + depth) of each; rows beyond repeat the last.
void Dequantize(const QuantizedTensor& w, std::int64_t row, std::int64_t count, std::int64_t k, std::int64_t depth,
                float* dense) {
  const std::uint8_t* codes[kDense];
  const std::uint8_t* scales[kDense];
  for (std::int64_t r = 0; r < kDense; ++r) {
    codes[r] = w.codes + (row + std::min(r, count - 1)) * w.code_stride + k / 2;
    scales[r] = w.scales + (row + std::min(r, count - 1)) * w.scale_stride + k / kBlock;
  }
  for (; depth >= kDenseStep; depth -= kDenseStep, dense += kDenseStep * kDense) {
    DequantizeStep(codes, scales, dense);
    for (std::int64_t r = 0; r < kDense; ++r) {
      codes[r] += kDenseStep / 2;
      scales[r] += kDenseStep / kBlock;
    }
  }
  if (depth == 0) return;
  std::uint8_t tail_codes[kDense][kDenseStep / 2] = {};
  std::uint8_t tail_scales[kDense][kDenseStep / kBlock] = {};
  for (std::int64_t r = 0; r < kDense; ++r) {
    std::memcpy(tail_codes[r], codes[r], static_cast<std::size_t>(depth / 2));
    std::memcpy(tail_scales[r], scales[r], static_cast<std::size_t>(depth / kBlock));
    codes[r] = tail_codes[r];
    scales[r] = tail_scales[r];
  }
  DequantizeStep(codes, scales, dense);
}

void MatrixPanel(const Panel& panel) {
  const QuantizedTensor& w = *panel.weights;
  auto* dense = reinterpret_cast<float*>(panel.scratch);
  std::fill_n(panel.sums, panel.m * kPanel, 0.0F);
  const std::int64_t x_stride = panel.x_stride / static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t k = 0; k < w.k; k += kW4A16Chunk) {
    const std::int64_t depth = std::min(kW4A16Chunk, w.k - k);
    const std::byte* chunk = panel.x + k / panel.chunk * panel.chunk_bytes;
    const float* x = reinterpret_cast<const float*>(chunk) + k % panel.chunk;
    for (std::int64_t j = 0; j < panel.count; j += kDense) {
      Dequantize(w, panel.n + j, std::min(kDense, panel.count - j), k, depth, dense);
      const auto rows = [&]<int M>(std::int64_t i) {
        Tile<M>(x + i * x_stride, x_stride, dense, depth, panel.sums + i * kPanel + j);
      };
      std::int64_t i = 0;
      for (; i + kTileRows <= panel.m; i += kTileRows) rows.template operator()<kTileRows>(i);
      switch (panel.m - i) {
        case 5:
          rows.template operator()<5>(i);
          break;
        case 4:
          rows.template operator()<4>(i);
          break;
        case 3:
          rows.template operator()<3>(i);
          break;
        case 2:
          rows.template operator()<2>(i);
          break;
        case 1:
          rows.template operator()<1>(i);
          break;
        default:
          break;
      }
    }
  }
}

void Multiply(const Panel& panel) {
  if (panel.m > kVectorRows) return MatrixPanel(panel);
  for (std::int64_t i = 0; i < panel.m; ++i) {
    const auto& row = *reinterpret_cast<const PlaneRow*>(panel.x + i * panel.x_stride);
    float* sums = panel.sums + i * kPanel;
    if (row.terms > 0) {
      PlanePanel(panel, row, sums);
    } else {
      Panel alone = panel;
      alone.m = 1;
      alone.x = floats_of(row);
      alone.sums = sums;
      MatrixPanel(alone);
    }
  }
}

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad::kernels {

HWY_EXPORT(Multiply);
HWY_EXPORT(PackPlanes);

std::size_t w4a16_packed_bytes(std::int64_t count, std::int64_t rows) {
  return rows <= kVectorRows ? plane_row_bytes(count) : static_cast<std::size_t>(count) * sizeof(float);
}

void w4a16_pack(const float* x, std::int64_t count, std::int64_t rows, std::byte* packed) {
  if (rows <= kVectorRows) {
    HWY_DYNAMIC_DISPATCH(PackPlanes)(x, count, *new (packed) PlaneRow);
  } else {
    std::memcpy(packed, x, static_cast<std::size_t>(count) * sizeof(float));
  }
}

std::size_t w4a16_scratch_bytes() { return static_cast<std::size_t>(kDense * kW4A16Chunk) * sizeof(float); }

void w4a16_multiply(const Panel& panel) { HWY_DYNAMIC_DISPATCH(Multiply)(panel); }

namespace {

class ExactRow final : public CpuRow {
 public:
  using CpuRow::CpuRow;

 protected:
  void pack(std::size_t, const float* x, std::int64_t count, std::int64_t rows, std::byte* packed) const override {
    w4a16_pack(x, count, rows, packed);
  }
  std::size_t packed_bytes(std::int64_t count, std::int64_t rows) const override {
    return w4a16_packed_bytes(count, rows);
  }
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
