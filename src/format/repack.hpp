// NVFP4 codes and scales in the orders of other formats, as pure functions (internal).
#pragma once

#include <cstdint>

#include "tetrad/error.hpp"
#include "tetrad/nvfp4.hpp"

namespace tetrad::format {

// GGUF's block_nvfp4: 64 elements of a row in 36 bytes, 4 scales then 32 code bytes; within 16 elements byte j holds
// element j (low nibble) and j + 8. Source: ggml d99724f2b141, ggml-common.h. The sign bit of scales is dropped.
inline constexpr std::int64_t kGgufBlockBytes = 36;

// From dense codes [rows, k/2] and linear scales [rows, k/16] to rows * k / 64 blocks. Precondition: k % 64 == 0.
void gguf_pack(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows, std::int64_t k,
               std::uint8_t* blocks);
// The inverse.
void gguf_unpack(const std::uint8_t* blocks, std::int64_t rows, std::int64_t k, std::uint8_t* codes,
                 std::uint8_t* scales);

// Marlin's weights (vLLM, gptq_marlin_repack.cu): dense codes [n, k/2] to words [k/16, 2 n].
// Precondition: n % 64 == 0, k % 16 == 0.
void marlin_codes(const std::uint8_t* codes, std::int64_t n, std::int64_t k, std::uint32_t* words);
// Marlin's scale order: linear [n, k/16] to [k/16, n]. Precondition: n % 64 == 0.
void marlin_scale_order(const std::uint8_t* scales, std::int64_t n, std::int64_t blocks, std::uint8_t* out);
// A scale byte as Marlin's S0E5M3, after multiplication by `factor` (a power of two); values below 2^-6 give 0.
std::uint8_t marlin_scale(std::uint8_t scale, float factor);

// MXFP4 (e2m1 codes [rows, k/2], E8M0 scales [rows, k/32]) to NVFP4 with a global scale of 2^m, m = largest exponent -
// 8 (and at least -126). Blocks whose exponent lies within [m - 9, m + 8] keep their codes exactly; smaller ones are
// quantised again (rtn). A scale of 0 counts as a zero block when m is chosen. Precondition: k % 32 == 0.
// Error (input): TE0405 an E8M0 scale of 255, NaN.
Result<float> mxfp4_to_nvfp4(const std::uint8_t* mx_codes, const std::uint8_t* mx_scales, std::int64_t rows,
                             std::int64_t k, std::uint8_t* codes, std::uint8_t* scales);

}  // namespace tetrad::format
