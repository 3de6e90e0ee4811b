// Exact products of one row of 16-bit activations with weights that stream from memory, in integers: within a block
// the activations become integers of 24 bits times a power of two, held as three planes of signed bytes. A dot product
// of a block is then exact in 32 bits and enters the fp32 sums with one rounding. Elements too small for their block
// (below its largest by more than 2^15 for bfloat16) leave a remainder: a few stay in fp32, many, as activations in
// fp32 have, become a second term of planes. Included once per target of Highway.
#if !defined(TETRAD_CPU_PLANES_ONCE)
#define TETRAD_CPU_PLANES_ONCE
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/row.hpp"
#include "kernels/cpu/tables.hpp"

namespace tetrad::kernels {

inline constexpr int kPlanes = 3;
inline constexpr std::int32_t kMostRemainders = 64;

struct alignas(32) PlaneStep {
  std::int8_t q[kPlanes][4][32];  // highest plane first, elements in the order of byte_element()
  std::int32_t offset[8];         // 12 * (sum of the integers of the block)
  float scales[8];                // power of two of the block, times 2^119: for weights of twice their value, 2^-120
  std::int32_t low_plane;         // the lowest plane is not all zero
};

inline constexpr int kMostTerms = 2;

// Start of a packed row. The steps of each term follow, then the row as fp32, which is what counts if there is no term.
struct alignas(64) PlaneRow {
  std::int32_t terms = 0;
  std::int32_t remainders = 0;  // of the last term
  std::int64_t count = 0;       // elements
  std::int32_t at[kMostRemainders] = {};
  float value[kMostRemainders] = {};
};

inline std::int64_t plane_steps(std::int64_t count) { return (count + 127) / 128; }

inline std::size_t plane_row_bytes(std::int64_t count) {
  return sizeof(PlaneRow) + static_cast<std::size_t>(kMostTerms * plane_steps(count)) * sizeof(PlaneStep) +
         static_cast<std::size_t>(count) * sizeof(float);
}

inline PlaneStep* term_of(PlaneRow& row, int term) {
  return reinterpret_cast<PlaneStep*>(&row + 1) + term * plane_steps(row.count);
}
inline const PlaneStep* term_of(const PlaneRow& row, int term) {
  return reinterpret_cast<const PlaneStep*>(&row + 1) + term * plane_steps(row.count);
}
inline float* floats_of(PlaneRow& row) { return reinterpret_cast<float*>(term_of(row, kMostTerms)); }
inline const std::byte* floats_of(const PlaneRow& row) {
  return reinterpret_cast<const std::byte*>(term_of(row, kMostTerms));
}

}  // namespace tetrad::kernels
#endif

#if defined(TETRAD_CPU_PLANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TETRAD_CPU_PLANES_INL
#undef TETRAD_CPU_PLANES_INL
#else
#define TETRAD_CPU_PLANES_INL
#endif

#include <hwy/highway.h>

#include "kernels/cpu/bytes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

// One block into lane `lane`; what is left of it stays in x, and `some` tells whether anything is. False where the
// block has NaN or Inf or lies outside the range in which no product of scales leaves fp32.
HWY_INLINE bool PackPlaneBlock(float* x, std::size_t lane, PlaneStep& out, bool& some) {
  // Largest magnitudes of a block, as bits: 2^-90 to below 2^29, or zero.
  constexpr std::int32_t kSmallest = (127 - 90) << 23;
  constexpr std::int32_t kBeyond = (127 + 29) << 23;
  // Three balanced digits reach 127 * (65536 + 256 + 1); 8323072 = 127 * 65536 lies below.
  constexpr std::int32_t kFullMantissa = 8323072;
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  const __m256 low = _mm256_loadu_ps(x);
  const __m256 high = _mm256_loadu_ps(x + 8);
  const __m256i larger = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(low), magnitude),
                                          _mm256_and_si256(_mm256_castps_si256(high), magnitude));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(larger), _mm256_extracti128_si256(larger, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  const std::int32_t largest = _mm_cvtsi128_si32(four);
  if (largest >= kBeyond || (largest != 0 && largest < kSmallest)) return false;
  // Largest magnitude times `up` is below 2^23, and below kFullMantissa.
  const std::int32_t mantissa = (largest & 0x7FFFFF) | 0x800000;
  const std::int32_t exponent = (largest >> 23) + (mantissa > kFullMantissa ? 1 : 0);
  const auto power = [](std::int32_t e) { return std::bit_cast<float>((127 + e) << 23); };
  const std::int32_t unit = largest == 0 ? 0 : exponent - 127 - 22;  // the integers count 2^unit
  const __m256 up = _mm256_set1_ps(power(-unit));
  const __m256 down = _mm256_set1_ps(power(unit));
  __m256i words[2];
  const __m256 parts[2] = {low, high};
  __m256 left[2];
  for (int h = 0; h < 2; ++h) {
    words[h] = _mm256_cvtps_epi32(_mm256_mul_ps(parts[h], up));
    left[h] = _mm256_sub_ps(parts[h], _mm256_mul_ps(_mm256_cvtepi32_ps(words[h]), down));
  }
  const __m256 any = _mm256_or_ps(left[0], left[1]);
  some = _mm256_movemask_ps(_mm256_cmp_ps(any, _mm256_setzero_ps(), _CMP_NEQ_UQ)) != 0;
  _mm256_storeu_ps(x, left[0]);
  _mm256_storeu_ps(x + 8, left[1]);
  const __m256i both = _mm256_add_epi32(words[0], words[1]);
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  out.offset[lane] = 12 * _mm_cvtsi128_si32(sum);
  out.scales[lane] = power(unit + 119);
  for (int p = kPlanes - 1; p >= 0; --p) {
    __m256i digit[2];
    for (int h = 0; h < 2; ++h) {
      digit[h] = _mm256_srai_epi32(_mm256_slli_epi32(words[h], 24), 24);
      words[h] = _mm256_srai_epi32(_mm256_sub_epi32(words[h], digit[h]), 8);
    }
    alignas(16) std::int8_t bytes[kBlock];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), OrderBytes(digit[0], digit[1]));
    for (std::size_t v = 0; v < 4; ++v) std::memcpy(out.q[p][v] + 4 * lane, bytes + 4 * v, 4);
    const __m256i either = _mm256_or_si256(digit[0], digit[1]);
    if (p == kPlanes - 1 && _mm256_testz_si256(either, either) == 0) out.low_plane = 1;
  }
  return true;
}

// One term of the elements x, which become what is left of them. False as PackPlaneBlock(). Remainders are listed as
// long as they fit; `some` counts all.
bool PackTerm(float* x, PlaneRow& row, PlaneStep* step, std::int64_t& some) {
  some = 0;
  row.remainders = 0;
  for (std::int64_t at = 0; at < row.count; at += kByteStep, ++step) {
    step->low_plane = 0;
    for (std::size_t lane = 0; lane < kByteLanes; ++lane) {
      const std::int64_t from = at + static_cast<std::int64_t>(kByteBlock[lane]) * kBlock;
      float zero[kBlock] = {};
      bool left = false;
      if (!PackPlaneBlock(from < row.count ? x + from : zero, lane, *step, left)) return false;
      for (std::int64_t i = 0; left && i < kBlock; ++i) {
        if (x[from + i] == 0.0F) continue;
        if (some++ >= kMostRemainders) continue;
        row.at[row.remainders] = static_cast<std::int32_t>(from + i);
        row.value[row.remainders++] = x[from + i];
      }
    }
  }
  return true;
}

void PackPlanes(const float* x, std::int64_t count, PlaneRow& row) {
  row.count = count;
  float* rest = floats_of(row);
  std::memcpy(rest, x, static_cast<std::size_t>(count) * sizeof(float));
  for (int term = 0; term < kMostTerms; ++term) {
    std::int64_t some = 0;
    if (!PackTerm(rest, row, term_of(row, term), some)) break;
    row.terms = term + 1;
    if (some <= kMostRemainders) return;
  }
  row.terms = 0;
  std::memcpy(rest, x, static_cast<std::size_t>(count) * sizeof(float));
}

// P: planes that are not all zero.
template <int P>
HWY_INLINE __m256 DotPlanes(const Weights128& w, const PlaneStep& x, __m256 sum) {
  const __m256i one = _mm256_set1_epi16(1);
  const __m256i high = _mm256_slli_epi32(_mm256_madd_epi16(DotBytes(w, x.q[0]), one), 16);
  const __m256i middle = _mm256_madd_epi16(DotBytes(w, x.q[1]), _mm256_set1_epi16(256));
  __m256i dots = _mm256_add_epi32(middle, _mm256_sub_epi32(high, LoadBytes(x.offset)));
  if constexpr (P == 3) dots = _mm256_add_epi32(dots, _mm256_madd_epi16(DotBytes(w, x.q[2]), one));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(w.scales, _mm256_load_ps(x.scales)), sum);
}

// R rows of weights from `j` on.
template <int R>
void PlaneRows(const Panel& panel, const PlaneRow& row, int term, std::int64_t j, float* sums) {
  const QuantizedTensor& w = *panel.weights;
  const PlaneStep* x = term_of(row, term);
  const std::int64_t code = w.code_stride;
  const std::int64_t scale = w.scale_stride;
  const std::uint8_t* codes = w.codes + (panel.n + j) * code;
  const std::uint8_t* scales = w.scales + (panel.n + j) * scale;
  const std::int64_t steps = w.k / kByteStep;
  // The last bytes of a row prefetch the first of the row R further on.
  const std::int64_t turn = steps - kByteAhead / (kByteStep / 2);
  __m256 acc[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) acc[r] = _mm256_setzero_ps();
  for (std::int64_t step = 0; step < steps; ++step, ++x) {
    const std::int64_t ahead = kByteAhead + (step < turn ? 0 : (R - 1) * code);
    _mm_prefetch(reinterpret_cast<const char*>(scales) + (R + step % R) * scale, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) _mm_prefetch(reinterpret_cast<const char*>(codes) + r * code + ahead, _MM_HINT_T0);
    const auto rows = [&]<int P>() HWY_ATTR {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) acc[r] = DotPlanes<P>(DecodeBytes(codes + r * code, scales + r * scale), *x, acc[r]);
    };
    if (x->low_plane)
      rows.template operator()<3>();
    else
      rows.template operator()<2>();
    codes += kByteStep / 2;
    scales += kByteStep / kBlock;
  }
  alignas(32) float lanes[R][kByteLanes];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) _mm256_store_ps(lanes[r], acc[r]);
  for (int r = 0; r < R; ++r) {
    if (w.k % kByteStep != 0) {
      const ByteTail tail(codes + r * code, scales + r * scale, w.k % kByteStep);
      _mm256_store_ps(lanes[r], DotPlanes<3>(DecodeBytes(tail.codes, tail.scales), *x, _mm256_load_ps(lanes[r])));
    }
    float sum = sum_byte_lanes(lanes[r]) + (term == 0 ? 0.0F : sums[j + r]);
    const std::int32_t remainders = term + 1 == row.terms ? row.remainders : 0;
    for (std::int32_t i = 0; i < remainders; ++i) {
      const std::int64_t at = row.at[i];
      const std::uint8_t byte = w.codes[(panel.n + j + r) * code + at / 2];
      const float value = kCodeTable[at % 2 == 0 ? byte & 15U : byte >> 4U];
      sum += row.value[i] * value * kScaleTable[w.scales[(panel.n + j + r) * scale + at / kBlock]];
    }
    sums[j + r] = sum;
  }
}

void PlanePanel(const Panel& panel, const PlaneRow& row, float* sums) {
  for (int term = 0; term < row.terms; ++term) {
    std::int64_t j = 0;
    for (; j + 4 <= panel.count; j += 4) PlaneRows<4>(panel, row, term, j, sums);
    for (; j < panel.count; ++j) PlaneRows<1>(panel, row, term, j, sums);
  }
}

#else

void PackPlanes(const float* x, std::int64_t count, PlaneRow& row) {
  row.count = count;
  std::memcpy(floats_of(row), x, static_cast<std::size_t>(count) * sizeof(float));
}

void PlanePanel(const Panel&, const PlaneRow&, float*) {}

#endif

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
