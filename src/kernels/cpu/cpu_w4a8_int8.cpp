// Row cpu_w4a8_int8: activations rounded to int8 per 16 along k, exact integer products within a block, sums of blocks
// in fp32. Codes become 2 * e2m1 + 12, unsigned, so that one instruction multiplies them with signed activations; the
// offset is taken off by 12 * (sum of the activations), which the packing provides. One block per 32-bit lane: its four
// groups of four elements stand at the same lane of four vectors. One partial sum per lane for every m, in the same
// order, so a row has the same bits whatever rows stand beside it.
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

inline constexpr std::int64_t kInt8Step = 128;    // elements of k per step: 64 bytes of codes, 8 block scales
inline constexpr std::int64_t kInt8Lanes = 8;     // partial sums per result, one per block of a step
inline constexpr std::int64_t kInt8Chunk = 1024;  // elements of k per chunk of packed activations
inline constexpr std::int64_t kInt8Decoded = 24;  // rows of weights decoded at once, into the first-level cache
inline constexpr std::int64_t kInt8Ahead = 1024;  // prefetch distance along a row of codes, bytes
inline constexpr std::int64_t kInt8Steps = kInt8Chunk / kInt8Step;

// Lane -> block of the step; the order in which shuffling 32-bit lanes of two vectors of codes yields them.
inline constexpr std::size_t kInt8Block[kInt8Lanes] = {0, 1, 4, 5, 2, 3, 6, 7};
// Element of its block at byte b of vector v: the low and high nibbles of the block's first four bytes, then of its
// last.
constexpr std::size_t int8_element(std::size_t v, std::size_t b) { return 8 * (v / 2) + 2 * b + v % 2; }

struct alignas(32) Int8Step {
  std::int8_t q[4][4 * kInt8Lanes];
  std::int16_t offset[2 * kInt8Lanes];  // 12 * (sum of the eight activations of 16-bit lane i)
  float scales[kInt8Lanes];
};

// 128 weights of one row in the same order.
struct alignas(32) WeightStep {
  std::uint8_t u[4][4 * kInt8Lanes];
  float scales[kInt8Lanes];
};

// Codes and scales of a step across the end of a row, zero beyond it.
struct Int8Tail {
  alignas(32) std::uint8_t codes[kInt8Step / 2] = {};
  std::uint8_t scales[kInt8Step / kBlock] = {};
  Int8Tail(const std::uint8_t* c, const std::uint8_t* s, std::int64_t elements) {
    std::memcpy(codes, c, static_cast<std::size_t>(elements / 2));
    std::memcpy(scales, s, static_cast<std::size_t>(elements / kBlock));
  }
};

inline std::int64_t int8_steps(std::int64_t k) { return (k + kInt8Step - 1) / kInt8Step; }

inline float sum_int8_lanes(const float* v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace tetrad::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

struct Weights128 {
  __m256i a;
  __m256i b;
  __m256i c;
  __m256i d;
  __m256 scales;
};

HWY_INLINE __m256i LoadBytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

HWY_INLINE Weights128 DecodeInt8(const std::uint8_t* codes, const std::uint8_t* scales) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  // Scale byte of block kInt8Block[lane] into each 32-bit lane.
  const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1,  //
                                          2, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1);
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256 low = _mm256_loadu_ps(reinterpret_cast<const float*>(codes));
  const __m256 high = _mm256_loadu_ps(reinterpret_cast<const float*>(codes + 32));
  const __m256i first = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
  const __m256i last = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xDD));
  std::int64_t eight;
  std::memcpy(&eight, scales, sizeof(eight));
  const __m256i positive = _mm256_and_si256(_mm256_set1_epi64x(eight), _mm256_set1_epi8(0x7F));
  // Exponent and mantissa at their places in fp32 give the value times 2^-120.
  const __m256i bits = _mm256_slli_epi32(_mm256_shuffle_epi8(positive, spread), 20);
  return {_mm256_shuffle_epi8(table, _mm256_and_si256(first, nibble)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(first, 4), nibble)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(last, nibble)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(last, 4), nibble)),
          _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p120F))};
}

// The sums of 16-bit products fit: 8 * 24 * 127 and, with the offset taken off, 8 * 12 * 127.
HWY_INLINE __m256 DotInt8(const Weights128& w, const Int8Step& x, __m256 sum) {
  const __m256i first =
      _mm256_add_epi16(_mm256_maddubs_epi16(w.a, LoadBytes(x.q[0])), _mm256_maddubs_epi16(w.b, LoadBytes(x.q[1])));
  const __m256i last =
      _mm256_add_epi16(_mm256_maddubs_epi16(w.c, LoadBytes(x.q[2])), _mm256_maddubs_epi16(w.d, LoadBytes(x.q[3])));
  const __m256i halves = _mm256_sub_epi16(_mm256_add_epi16(first, last), LoadBytes(x.offset));
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
  const std::int64_t steps = w.k / kInt8Step;
  // The last bytes of a row prefetch the first of the row R further on.
  const std::int64_t turn = steps - kInt8Ahead / (kInt8Step / 2);
  __m256 sums[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_ps();
  for (std::int64_t step = 0; step < steps; ++step, ++x) {
    const std::int64_t ahead = kInt8Ahead + (step < turn ? 0 : (R - 1) * code);
    const std::int64_t scale_row = R + step % R;
    _mm_prefetch(reinterpret_cast<const char*>(scales) + scale_row * scale, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(codes) + r * code + ahead, _MM_HINT_T0);
      sums[r] = DotInt8(DecodeInt8(codes + r * code, scales + r * scale), *x, sums[r]);
    }
    codes += kInt8Step / 2;
    scales += kInt8Step / kBlock;
  }
  alignas(32) float lanes[R][kInt8Lanes];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) _mm256_store_ps(lanes[r], sums[r]);
  for (int r = 0; r < R; ++r) {
    if (w.k % kInt8Step != 0) {
      const Int8Tail tail(codes + r * code, scales + r * scale, w.k % kInt8Step);
      _mm256_store_ps(lanes[r], DotInt8(DecodeInt8(tail.codes, tail.scales), *x, _mm256_load_ps(lanes[r])));
    }
    panel.sums[i * kPanel + j + r] = sum_int8_lanes(lanes[r]);
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
  for (int i = 0; i < M; ++i) acc[i] = _mm256_load_ps(sums + i * kPanel * kInt8Lanes);
  for (std::int64_t s = 0; s < steps; ++s) {
    const Weights128 step = {LoadBytes(w[s].u[0]), LoadBytes(w[s].u[1]), LoadBytes(w[s].u[2]), LoadBytes(w[s].u[3]),
                             _mm256_load_ps(w[s].scales)};
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) acc[i] = DotInt8(step, x[i * x_stride + s], acc[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) _mm256_store_ps(sums + i * kPanel * kInt8Lanes, acc[i]);
}

void StoreStep(const std::uint8_t* codes, const std::uint8_t* scales, WeightStep& out) {
  const Weights128 step = DecodeInt8(codes, scales);
  const __m256i parts[4] = {step.a, step.b, step.c, step.d};
  for (int v = 0; v < 4; ++v) _mm256_store_si256(reinterpret_cast<__m256i*>(out.u[v]), parts[v]);
  _mm256_store_ps(out.scales, step.scales);
}

// quantize_int8_block() in vectors, then the bytes in the order of int8_element().
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
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(nearest(low), nearest(high)), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
}

void PackInt8(const float* x, std::int64_t steps, Int8Step* out) {
  for (; steps > 0; --steps, ++out, x += kInt8Step) {
    for (std::size_t lane = 0; lane < kInt8Lanes; ++lane) {
      alignas(16) std::int8_t q[kBlock];
      _mm_store_si128(reinterpret_cast<__m128i*>(q), QuantizeBlock(x + kInt8Block[lane] * kBlock, out->scales[lane]));
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
      for (std::size_t lane = 0; lane < kInt8Lanes; ++lane) {
        int dot = -a.offset[2 * lane] - a.offset[2 * lane + 1];
        for (std::size_t v = 0; v < 4; ++v)
          for (std::size_t b = 4 * lane; b < 4 * lane + 4; ++b) dot += w[s].u[v][b] * a.q[v][b];
        sums[i * kPanel * kInt8Lanes + static_cast<std::int64_t>(lane)] +=
            static_cast<float>(dot) * (w[s].scales[lane] * a.scales[lane]);
      }
    }
}

void StoreStep(const std::uint8_t* codes, const std::uint8_t* scales, WeightStep& out) {
  constexpr std::uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  for (std::size_t lane = 0; lane < kInt8Lanes; ++lane) {
    const std::uint8_t* block = codes + kInt8Block[lane] * kBlock / 2;
    for (std::size_t v = 0; v < 4; ++v)
      for (std::size_t b = 0; b < 4; ++b) {
        const std::size_t e = int8_element(v, b);
        out.u[v][4 * lane + b] = kTable[block[e / 2] >> (e % 2 * 4) & 15U];
      }
    out.scales[lane] = kScaleTable[scales[kInt8Block[lane]]];
  }
}

void PackInt8(const float* x, std::int64_t steps, Int8Step* out) {
  for (; steps > 0; --steps, ++out, x += kInt8Step)
    for (std::size_t lane = 0; lane < kInt8Lanes; ++lane) {
      std::int8_t q[kBlock];
      out->scales[lane] = quantize_int8_block(x + kInt8Block[lane] * kBlock, q);
      int sums[2] = {};
      for (std::size_t v = 0; v < 4; ++v)
        for (std::size_t b = 0; b < 4; ++b) {
          const std::int8_t value = q[int8_element(v, b)];
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
    for (std::int64_t at = k; at < std::min(k + kInt8Chunk, w.k); at += kInt8Step, ++out) {
      if (at + kInt8Step <= w.k) {
        StoreStep(codes + at / 2, scales + at / kBlock, *out);
      } else {
        const Int8Tail tail(codes + at / 2, scales + at / kBlock, w.k - at);
        StoreStep(tail.codes, tail.scales, *out);
      }
    }
  }
}

void MatrixPanel8(const Panel& panel) {
  const QuantizedTensor& w = *panel.weights;
  auto* decoded = reinterpret_cast<WeightStep*>(panel.scratch);
  auto* lanes = reinterpret_cast<float*>(decoded + kInt8Decoded * kInt8Steps);
  std::fill_n(lanes, panel.m * kPanel * kInt8Lanes, 0.0F);
  const std::int64_t x_stride = panel.x_stride / static_cast<std::int64_t>(sizeof(Int8Step));
  for (std::int64_t k = 0; k < w.k; k += kInt8Chunk) {
    const std::int64_t steps = int8_steps(std::min(kInt8Chunk, w.k - k));
    const auto* x =
        reinterpret_cast<const Int8Step*>(panel.x + k / panel.chunk * panel.chunk_bytes) + k % panel.chunk / kInt8Step;
    for (std::int64_t first = 0; first < panel.count; first += kInt8Decoded) {
      const std::int64_t last = std::min(first + kInt8Decoded, panel.count);
      DecodeRows(w, panel.n + first, last - first, k, decoded);
      for (std::int64_t i = 0; i < panel.m;) {
        const bool four = i + 4 <= panel.m;
        for (std::int64_t j = first; j < last; ++j) {
          const WeightStep* column = decoded + (j - first) * kInt8Steps;
          float* to = lanes + (i * kPanel + j) * kInt8Lanes;
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
      panel.sums[i * kPanel + j] = sum_int8_lanes(lanes + (i * kPanel + j) * kInt8Lanes);
}

void Multiply8(const Panel& panel) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (panel.m <= 2) {
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
  void pack(std::size_t, const float* x, std::int64_t count, std::byte* packed) const override {
    auto* out = reinterpret_cast<Int8Step*>(packed);
    HWY_DYNAMIC_DISPATCH(PackInt8)(x, count / kInt8Step, out);
    if (const std::int64_t rest = count % kInt8Step; rest != 0) {
      float step[kInt8Step] = {};
      std::copy_n(x + count - rest, rest, step);
      HWY_DYNAMIC_DISPATCH(PackInt8)(step, 1, out + count / kInt8Step);
    }
  }
  std::size_t packed_bytes(std::int64_t count) const override {
    return static_cast<std::size_t>(int8_steps(count)) * sizeof(Int8Step);
  }
  std::size_t scratch_bytes() const override {
    return kInt8Decoded * kInt8Steps * sizeof(WeightStep) + kMaxRows * kPanel * kInt8Lanes * sizeof(float);
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
