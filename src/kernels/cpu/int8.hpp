// Activations of the W4A8 row: signed 8-bit integers with one fp32 scale per 16 elements along k.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tetrad/tensor.hpp"

namespace tetrad::kernels {

inline constexpr float kInt8Largest = 127.0F;
inline constexpr std::int32_t kInfinityBits = 0x7F800000;
// 1.5 * 2^23: adding it leaves the nearest-even integer in the low bits.
inline constexpr float kRoundToInteger = 12582912.0F;

// Quantises one block: scale = amax / 127, integers nearest even of x / scale in [-127, 127]. Returns the scale. A
// block with NaN or Inf gets integers 0 and scale NaN.
inline float quantize_int8_block(const float* x, std::int8_t* q) {
  // The bits of magnitudes order as integers do; integer loops become vectors.
  std::int32_t bits[kBlock];
  std::memcpy(bits, x, sizeof(bits));
  std::int32_t largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, bits[i] & 0x7FFFFFFF);
  const float scale = std::bit_cast<float>(largest) / kInt8Largest;
  if (largest >= kInfinityBits || scale == 0.0F) {
    std::fill_n(q, kBlock, std::int8_t{0});
    return largest >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  }
  float shifted[kBlock];
  for (int i = 0; i < kBlock; ++i) shifted[i] = x[i] / scale + kRoundToInteger;
  std::memcpy(bits, shifted, sizeof(bits));
  for (int i = 0; i < kBlock; ++i)
    q[i] =
        static_cast<std::int8_t>(std::min(127, std::max(-127, bits[i] - std::bit_cast<std::int32_t>(kRoundToInteger))));
  return scale;
}

}  // namespace tetrad::kernels
