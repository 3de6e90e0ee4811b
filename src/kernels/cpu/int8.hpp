// Activations of the W4A8 row: signed 8-bit integers with one fp32 scale per 16 elements along k.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tetrad/tensor.hpp"

namespace tetrad::kernels {

// Quantises one block: scale = amax / 127, integers nearest even of x / scale in [-127, 127]. Returns the scale. A
// block with NaN or Inf gets integers 0 and scale NaN.
inline float quantize_int8_block(const float* x, std::int8_t* q) {
  constexpr std::int32_t kInfinity = 0x7F800000;
  // The bits of magnitudes order as integers do; integer loops become vectors.
  std::int32_t bits[kBlock];
  std::memcpy(bits, x, sizeof(bits));
  std::int32_t largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, bits[i] & 0x7FFFFFFF);
  const float scale = std::bit_cast<float>(largest) / 127.0F;
  if (largest >= kInfinity || scale == 0.0F) {
    std::fill_n(q, kBlock, std::int8_t{0});
    return largest >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  }
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest-even integer in the low bits
  float shifted[kBlock];
  for (int i = 0; i < kBlock; ++i) shifted[i] = x[i] / scale + kRound;
  std::memcpy(bits, shifted, sizeof(bits));
  for (int i = 0; i < kBlock; ++i)
    q[i] = static_cast<std::int8_t>(std::min(127, std::max(-127, bits[i] - std::bit_cast<std::int32_t>(kRound))));
  return scale;
}

}  // namespace tetrad::kernels
