// NVFP4 as arithmetic: e2m1 elements, ue4m3 block scales, a global scale; quantisers; scale layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
// UE4M3 byte -> value; 0x7F is NaN. The sign bit is ignored by hardware and must be 0 in files.
float ue4m3_decode(std::uint8_t byte);
// Nearest even. `saturate`: above 464 gives 448 (CUDA __NV_SATFINITE), else NaN (torch, ml_dtypes). Negatives keep
// their sign bit, so that a caller sees them.
std::uint8_t ue4m3_encode(float value, bool saturate = true);

// How block scales are found.
enum class QuantMethod : std::uint8_t {
  rtn,            // amax / 6, rounded to nearest
  four_over_six,  // amax / 6 or amax / 4, whichever has the smaller squared error; global scale amax / (6 * 256)
  search,         // the scale of the smallest squared error among all that can win
};
std::string_view name(QuantMethod method);
std::optional<QuantMethod> parse_quant_method(std::string_view text);

struct QuantStats {
  double sum_squared = 0.0;        // of the input
  double sum_squared_error = 0.0;
  std::int64_t blocks = 0;
  std::int64_t blocks_over_four = 0;   // blocks where amax / 4 won (four_over_six)
  std::int64_t zero_blocks = 0;
};

// amax over a matrix. Error (input): NaN or Inf, with row and column of the first.
Result<float> absmax(const ConstMatrix& source, int threads = 0);

// The global scale (as a multiplier) for a tensor with this amax: amax / (6 * 448), or / (6 * 256) for four_over_six;
// 1 for amax 0.
float global_scale_for(float amax, QuantMethod method);

// Quantises rows to codes [rows, cols/2] and linear scales [rows, cols/16]. `global` is a multiplier shared by all
// shards of one fused layer. Errors (input): cols not a multiple of 16, NaN or Inf (row, column), global not positive
// and finite.
Status quantize(const ConstMatrix& source, float global, QuantMethod method, std::uint8_t* codes, std::uint8_t* scales,
                QuantStats* stats = nullptr, int threads = 0);

// Dequantises to fp32 [rows, k], row stride k: e2m1 * ue4m3 * global, rounded once.
void dequantize(const QuantizedTensor& tensor, float* out, int threads = 0);

// Activations as a W4A4 kernel sees them: per 16 along k, scale = ue4m3(amax/6 / global), codes nearest even.
// `global` as a multiplier (static input scale). Same outputs as quantize with rtn, but non-finite values are kept as
// the hardware does (NaN -> scale NaN).
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
