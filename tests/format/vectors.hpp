// The worked tensors of the format's test vectors.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tetrad/types.hpp"

// Block 0 lies on exact ties, block 2 is zero, the scale of block 3 underflows. amax 3.
inline std::array<float, 64> tensor_t() {
  std::array<float, 64> t = {3,
                             -2.5F,
                             1.75F,
                             -1.25F,
                             .75F,
                             -.5F,
                             .375F,
                             -.25F,
                             .125F,
                             -.0625F,
                             2,
                             -1,
                             .625F,
                             -.875F,
                             .3125F,
                             0,
                             .8125F,
                             -.3984375F,
                             .10009765625F,
                             -.0498046875F,
                             .69921875F,
                             -.1298828125F,
                             .224609375F,
                             -.32421875F,
                             .50390625F,
                             -.6015625F,
                             .0250244140625F,
                             -.01409912109375F,
                             .40234375F,
                             -.76953125F,
                             .150390625F,
                             -.279296875F};
  t[48] = 0x1p-18F;
  t[49] = -0x1p-18F;
  t[50] = 0x1p-19F;
  t[51] = -0x1p-19F;
  t[53] = 0x1p-20F;
  return t;
}

// As T, with an amax whose reciprocal rounds. amax 2.796875.
inline std::array<float, 64> tensor_u() {
  std::array<float, 64> u = tensor_t();
  u[0] = 2.796875F;
  u[1] = -2.59375F;
  u[2] = 1.8203125F;
  return u;
}

inline std::vector<std::uint8_t> hex_bytes(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    if (text[i] == ' ') {
      --i;
      continue;
    }
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline tetrad::ConstMatrix matrix_of(const float* data, std::int64_t rows, std::int64_t cols) {
  return {data, tetrad::DType::f32, rows, cols, cols};
}
