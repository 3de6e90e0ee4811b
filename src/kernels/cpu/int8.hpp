// Activations of the W4A8 row: signed 8-bit integers with one fp32 scale per 16 elements along k.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tetrad/tensor.hpp"

namespace tetrad::kernels {

// Quantises one block: scale = amax / 127, integers nearest even of x / scale in [-127, 127]. Returns the scale. A
// block with NaN or Inf gets integers 0 and scale NaN.
inline float quantize_int8_block(const float* x, std::int8_t* q) {
  float amax = 0.0F;
  float finite = 0.0F;
  for (int i = 0; i < kBlock; ++i) {
    const float a = std::fabs(x[i]);
    amax = a > amax ? a : amax;
    finite += x[i] * 0.0F;
  }
  const float scale = amax / 127.0F;
  if (!(finite == 0.0F) || scale == 0.0F) {
    std::fill_n(q, kBlock, std::int8_t{0});
    return finite == 0.0F ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, nearest even
  for (int i = 0; i < kBlock; ++i) {
    const float rounded = (x[i] / scale + kRound) - kRound;
    q[i] = static_cast<std::int8_t>(static_cast<int>(std::min(127.0F, std::max(-127.0F, rounded))));
  }
  return scale;
}

}  // namespace tetrad::kernels
