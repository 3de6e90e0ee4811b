// Weights as unsigned bytes 2 * e2m1 + 12, 128 at a time, so that one instruction multiplies them with signed
// activations; the offset is taken off by 12 * (sum of the activations). One block per 32-bit lane: its four groups of
// four elements stand at the same lane of four vectors. Included once per target of Highway.
#if !defined(TETRAD_CPU_BYTES_ONCE)
#define TETRAD_CPU_BYTES_ONCE
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/row.hpp"

namespace tetrad::kernels {

inline constexpr std::int64_t kByteStep = 128;  // elements of k per step: 64 bytes of codes, 8 block scales
inline constexpr std::int64_t kByteLanes = 8;   // partial sums per result, one per block of a step
// Prefetch distance along a row of codes, bytes.
inline constexpr std::int64_t kByteAhead = 2048;

// Lane -> block of the step; the order in which shuffling 32-bit lanes of two vectors of codes yields them.
inline constexpr std::size_t kByteBlock[kByteLanes] = {0, 1, 4, 5, 2, 3, 6, 7};
// Element of its block at byte b of vector v: the low and high nibbles of the block's first four bytes, then of its
// last.
constexpr std::size_t byte_element(std::size_t v, std::size_t b) { return 8 * (v / 2) + 2 * b + v % 2; }

// Codes and scales of a step across the end of a row, zero beyond it.
struct ByteTail {
  alignas(32) std::uint8_t codes[kByteStep / 2] = {};
  std::uint8_t scales[kByteStep / kBlock] = {};
  ByteTail(const std::uint8_t* c, const std::uint8_t* s, std::int64_t elements) {
    std::memcpy(codes, c, static_cast<std::size_t>(elements / 2));
    std::memcpy(scales, s, static_cast<std::size_t>(elements / kBlock));
  }
};

inline std::int64_t byte_steps(std::int64_t k) { return (k + kByteStep - 1) / kByteStep; }

inline float sum_byte_lanes(const float* v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace tetrad::kernels
#endif

#if defined(TETRAD_CPU_BYTES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TETRAD_CPU_BYTES_INL
#undef TETRAD_CPU_BYTES_INL
#else
#define TETRAD_CPU_BYTES_INL
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tetrad::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

struct Weights128 {
  __m256i a;
  __m256i b;
  __m256i c;
  __m256i d;
  __m256 scales;  // times 2^-120
};

HWY_INLINE __m256i LoadBytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

HWY_INLINE Weights128 DecodeBytes(const std::uint8_t* codes, const std::uint8_t* scales) {
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
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(last, 4), nibble)), _mm256_castsi256_ps(bits)};
}

// The bytes of one block of 16 integers in [-128, 127] in the order of byte_element(): 4 for each of the vectors.
HWY_INLINE __m128i OrderBytes(__m256i low, __m256i high) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
}

// Sums of four products each, in 16 bits: 8 * 24 * 128 at most.
HWY_INLINE __m256i DotBytes(const Weights128& w, const std::int8_t (&q)[4][4 * kByteLanes]) {
  const __m256i first =
      _mm256_add_epi16(_mm256_maddubs_epi16(w.a, LoadBytes(q[0])), _mm256_maddubs_epi16(w.b, LoadBytes(q[1])));
  const __m256i last =
      _mm256_add_epi16(_mm256_maddubs_epi16(w.c, LoadBytes(q[2])), _mm256_maddubs_epi16(w.d, LoadBytes(q[3])));
  return _mm256_add_epi16(first, last);
}

#endif

}  // namespace tetrad::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
