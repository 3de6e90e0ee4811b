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

}  // namespace tetrad::kernels
