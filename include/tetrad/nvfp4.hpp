// NVFP4 as arithmetic: e2m1 elements, ue4m3 block scales, a global scale; quantisers; scale layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tetrad/error.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

inline constexpr float kE2m1Max = 6.0F;
inline constexpr float kUe4m3Max = 448.0F;

// E2M1 code (low 4 bits) -> value; 8 is -0.
float e2m1_decode(std::uint8_t code);
// Nearest even, saturating; -0 and tiny negatives give 8, NaN gives 7 (as CUDA's cuda_fp4.h).
std::uint8_t e2m1_encode(float value);
// UE4M3 byte -> value; 0x7F is NaN. The sign bit is ignored here, as by the hardware, and must be 0 in files.
float ue4m3_decode(std::uint8_t byte);
// Nearest even. `saturate`: above 464 gives 448 (CUDA __NV_SATFINITE), else NaN (torch, ml_dtypes). Negatives keep
// their sign bit, so that a caller sees them; NaN gives 0x7F.
std::uint8_t ue4m3_encode(float value, bool saturate = true);

// How block scales are found. A block's codes are the nearest (ties to even) to x / (scale * global), a true fp32
// division.
enum class QuantMethod : std::uint8_t {
  rtn,            // amax / (6 * global), rounded to nearest: ModelOpt's bytes, but for -0
  four_over_six,  // amax / 6 or amax / 4, whichever has the smaller squared error; global scale amax / (6 * 256)
  search,         // the scale of the smallest squared error among all 126; an equal one does not replace rtn's
};
// Names: "rtn", "four-over-six", "search".
std::string_view name(QuantMethod method);
std::optional<QuantMethod> parse_quant_method(std::string_view text);

struct QuantStats {
  double sum_squared = 0.0;        // of the input
  double sum_squared_error = 0.0;  // of the input against what dequantize gives
  std::int64_t blocks = 0;
  std::int64_t blocks_over_four = 0;  // blocks where amax / 4 won (four_over_six)
  std::int64_t zero_blocks = 0;
};

// amax over a matrix. Errors (input): TE0401 element type, TE0402 NaN or Inf, with row and column of the first.
Result<float> absmax(const ConstMatrix& source, int threads = 0);

// The global scale (as a multiplier) for a tensor with this amax: amax / (6 * 448), or / (6 * 256) for four_over_six;
// 1 for amax 0, and never below FLT_MIN, so that no division by it overflows to NaN.
float global_scale_for(float amax, QuantMethod method);

// Quantises rows to codes [rows, cols/2] and linear scales [rows, cols/16], both dense. `global` is a multiplier shared
// by all shards of one fused layer. Scale bytes are 0x01 to 0x7E; an all-zero block has 0x38 (1.0). Zero gives code 0,
// -0 and tiny negatives 8. `stats` is overwritten. The same bytes and sums on every CPU and for any number of threads.
// Errors (input): TE0401 element type, TE0402 NaN or Inf (row, column), TE0403 cols not a multiple of 16, TE0404 global
// not a positive, finite, normal number. After an error the outputs are unspecified.
Status quantize(const ConstMatrix& source, float global, QuantMethod method, std::uint8_t* codes, std::uint8_t* scales,
                QuantStats* stats = nullptr, int threads = 0);

// Dequantises to fp32 [rows, k], row stride k, from any scale layout in host memory. Element = e2m1 * ue4m3 (exact),
// then times a multiplier or over a divisor: rounded once.
void dequantize(const QuantizedTensor& tensor, float* out, int threads = 0);

// Activations as a W4A4 kernel sees them, on the calling thread: the outputs of quantize with rtn, but non-finite
// values pass as the hardware converts them (a block with NaN: scale 0x7F, codes 7; with Inf: scale 448, its code +-6).
// `global` is the static input scale as a multiplier; it is rounded to fp32. Precondition: that is positive, finite and
// normal; x.cols is a multiple of 16.
void quantize_activations(const ConstMatrix& x, double global, std::uint8_t* codes, std::uint8_t* scales);

// Bytes of a scale buffer for [rows, blocks] in a layout (padding included).
std::size_t scale_bytes(ScaleLayout layout, std::int64_t rows, std::int64_t blocks);
// Offset of (row, block) in it.
std::size_t scale_offset(ScaleLayout layout, std::int64_t row, std::int64_t block, std::int64_t blocks);
// linear -> layout; padding is written as 0.
void scale_pack(ScaleLayout layout, const std::uint8_t* linear, std::int64_t rows, std::int64_t blocks,
                std::uint8_t* out);
// layout -> linear; the exact inverse.
void scale_unpack(ScaleLayout layout, const std::uint8_t* packed, std::int64_t rows, std::int64_t blocks,
                  std::uint8_t* linear);

}  // namespace tetrad
