// The vector loops over one row, chosen at run time for the CPU. Every target gives the same bits (internal).
#pragma once

#include <cstdint>

#include "format/profiles.hpp"
#include "tetrad/types.hpp"

namespace tetrad::format {

inline constexpr std::uint32_t kInfBits = 0x7F800000U;

struct EncodeParams {
  Profile profile;
  DType type = DType::f32;  // of the source: f32, bf16, f16
  float global = 1.0F;      // in the convention of profile.rule
};

struct RowStats {
  double sum_squared = 0.0;
  double sum_squared_error = 0.0;
  std::int64_t blocks_over_four = 0;
  std::int64_t zero_blocks = 0;
};

// Largest |x| of a row as fp32 bits; >= kInfBits where the row holds NaN or Inf.
std::uint32_t absmax_bits_row(const void* row, DType type, std::int64_t cols);

// Encodes a row of `cols` (a multiple of 16) to cols/2 code bytes and cols/16 scale bytes; `stats` may be null.
// Returns as absmax_bits_row.
std::uint32_t encode_row(const EncodeParams& params, const void* row, std::int64_t cols, std::uint8_t* codes,
                         std::uint8_t* scales, RowStats* stats);

// Decodes `blocks` blocks of a row. Element = (e2m1 * ue4m3) * global, or / global for a divisor: the product of the
// first two is exact, so there is one rounding.
void decode_row(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t blocks, GlobalScale global,
                float* out);

}  // namespace tetrad::format
