#include <cstring>

#include "tetrad/nvfp4.hpp"

namespace tetrad {
namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

std::size_t scale_bytes(ScaleLayout layout, std::int64_t rows, std::int64_t blocks) {
  switch (layout) {
    case ScaleLayout::swizzle_128x4:
      return static_cast<std::size_t>(round_up(rows, 128) * round_up(blocks, 4));
    case ScaleLayout::swizzle_8x4:
      return static_cast<std::size_t>(round_up(rows, 8) * round_up(blocks, 4));
    case ScaleLayout::linear:
      break;
  }
  return static_cast<std::size_t>(rows * blocks);
}

std::size_t scale_offset(ScaleLayout layout, std::int64_t row, std::int64_t block, std::int64_t blocks) {
  const std::int64_t tiles = round_up(blocks, 4) / 4;
  switch (layout) {
    case ScaleLayout::swizzle_128x4:
      return static_cast<std::size_t>(((row / 128) * tiles + block / 4) * 512 + (row % 32) * 16 +
                                      ((row % 128) / 32) * 4 + block % 4);
    case ScaleLayout::swizzle_8x4:
      return static_cast<std::size_t>(((row / 8) * tiles + block / 4) * 32 + (row % 8) * 4 + block % 4);
    case ScaleLayout::linear:
      break;
  }
  return static_cast<std::size_t>(row * blocks + block);
}

void scale_pack(ScaleLayout layout, const std::uint8_t* linear, std::int64_t rows, std::int64_t blocks,
                std::uint8_t* out) {
  std::memset(out, 0, scale_bytes(layout, rows, blocks));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      out[scale_offset(layout, row, block, blocks)] = linear[row * blocks + block];
    }
  }
}

void scale_unpack(ScaleLayout layout, const std::uint8_t* packed, std::int64_t rows, std::int64_t blocks,
                  std::uint8_t* linear) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      linear[row * blocks + block] = packed[scale_offset(layout, row, block, blocks)];
    }
  }
}

}  // namespace tetrad
