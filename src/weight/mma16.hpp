// Where layout mma16/1 keeps a code and a scale (internal). One formula for the packer, the tests and the GPU kernels.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define TETRAD_HOST_DEVICE __host__ __device__
#else
#define TETRAD_HOST_DEVICE
#endif

namespace tetrad::weight {

inline constexpr std::int64_t kMma16Rows = 16;        // rows of a tile
inline constexpr std::int64_t kMma16K = 64;           // elements of k of a group
inline constexpr std::int64_t kMma16CodeBytes = 512;  // of a group: 32 lanes of 16 bytes
inline constexpr std::int64_t kMma16ScaleBytes = 64;  // of a group

TETRAD_HOST_DEVICE constexpr std::int64_t mma16_tiles(std::int64_t rows) {
  return (rows + kMma16Rows - 1) / kMma16Rows;
}
TETRAD_HOST_DEVICE constexpr std::int64_t mma16_groups(std::int64_t k) { return (k + kMma16K - 1) / kMma16K; }
// Bytes of a tile: the codes of all its groups, then their scales.
TETRAD_HOST_DEVICE constexpr std::int64_t mma16_tile_bytes(std::int64_t k) {
  return mma16_groups(k) * (kMma16CodeBytes + kMma16ScaleBytes);
}
constexpr std::int64_t mma16_bytes(std::int64_t rows, std::int64_t k) {
  return mma16_tiles(rows) * mma16_tile_bytes(k);
}

// Place of the 16 bytes of lane (g, t) among the 32 of a group; t is the lane's number in its quad. The exchange of
// neighbours keeps the word pairs of an m16n8k64 operand on different banks.
TETRAD_HOST_DEVICE constexpr int mma16_place(int g, int t) { return 4 * g + (t ^ (g >> 1 & 1)); }

struct Mma16Code {
  std::int64_t byte;
  int shift;  // 0: low nibble, 4: high
};

// Code of row r, column c.
constexpr Mma16Code mma16_code(std::int64_t r, std::int64_t c, std::int64_t k) {
  const auto g = static_cast<int>(r % 8);
  const auto t = static_cast<int>(c / 2 % 4);
  const std::int64_t step = c / 16 % 4;
  return {r / kMma16Rows * mma16_tile_bytes(k) + c / kMma16K * kMma16CodeBytes + 16 * mma16_place(g, t) + 4 * step +
              2 * (c % 2) + r / 8 % 2,
          c / 8 % 2 == 0 ? 0 : 4};
}

// Byte of the scale of row r, block b (16 elements of k).
constexpr std::int64_t mma16_scale(std::int64_t r, std::int64_t b, std::int64_t k) {
  return r / kMma16Rows * mma16_tile_bytes(k) + mma16_groups(k) * kMma16CodeBytes + b / 4 * kMma16ScaleBytes +
         8 * (r % 8) + 2 * (b % 4) + r / 8 % 2;
}

}  // namespace tetrad::weight
