// Look-up tables of the CPU rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/row.hpp"

namespace tetrad::kernels {

// UE4M3 byte -> value, sign bit ignored. 0x7F gives 480 here: rows with a NaN scale are overwritten after the product.
inline constexpr std::array<float, 256> kScaleTable = [] {
  std::array<float, 256> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const int exponent = static_cast<int>(byte >> 3 & 15U);
    const int mantissa = static_cast<int>(byte & 7U);
    float value = static_cast<float>(exponent == 0 ? mantissa : mantissa + 8) / 512.0F;  // smallest step 2^-9
    for (int e = 1; e < exponent; ++e) value *= 2.0F;
    table[byte] = value;
  }
  return table;
}();

// E2M1 code -> value.
inline constexpr std::array<float, 16> kCodeTable = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                     -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// Order in which the 64 elements of one step stand as fp32, eight vectors of eight: position -> element. It is the
// order in which byte unpacking within 128-bit lanes yields the nibbles of 32 bytes. Vectors 0-3 hold blocks 0 (lanes
// 0-3) and 2 (lanes 4-7), vectors 4-7 blocks 1 and 3.
inline constexpr std::array<std::uint8_t, kStep> kStepOrder = [] {
  std::array<std::uint8_t, kStep> order{};
  for (std::size_t v = 0; v < 8; ++v)
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const std::size_t byte = (lane < 4 ? 0U : 16U) + (v < 4 ? 0U : 8U) + 2 * (lane % 4) + v % 2;
      order[v * 8 + lane] = static_cast<std::uint8_t>(2 * byte + v % 4 / 2);
    }
  return order;
}();

}  // namespace tetrad::kernels
