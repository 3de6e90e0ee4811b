// A view of an NVFP4 tensor: codes, block scales, global scale, as a producer stored them.
#pragma once

#include <cstdint>
#include <optional>

#include "tetrad/types.hpp"

namespace tetrad {

// Elements that share one UE4M3 block scale, along k.
inline constexpr int kBlock = 16;

// The fp32 scale of a whole tensor. Two conventions exist; they are told apart by the tensor's name in the file,
// never by magnitude (ModelOpt and torchao store a multiplier, compressed-tensors a divisor).
struct GlobalScale {
  enum class Kind : std::uint8_t { multiplier, divisor };
  float value = 1.0F;  // as stored, bit for bit
  Kind kind = Kind::multiplier;

  // The factor that a decoded element is multiplied by, in double to round only once.
  double decode() const { return kind == Kind::multiplier ? double{value} : 1.0 / double{value}; }
};

// Order of the block scales in memory. `linear` is row-major [rows, k/16].
enum class ScaleLayout : std::uint8_t { linear, swizzle_128x4, swizzle_8x4 };

enum class MemorySpace : std::uint8_t { host, device };

// A view of [rows, k] NVFP4 values; owns nothing. Element (r, c) =
//   e2m1(code(r, c)) * ue4m3(scale(r, c / 16)) * global.decode()
// with code(r, c) in byte codes[r * code_stride + c / 2], low nibble for even c.
struct QuantizedTensor {
  std::int64_t rows = 0;  // n of the matmul
  std::int64_t k = 0;     // a multiple of 16
  const std::uint8_t* codes = nullptr;
  std::int64_t code_stride = 0;  // bytes between rows, >= k / 2
  const std::uint8_t* scales = nullptr;
  std::int64_t scale_stride = 0;  // bytes between rows, >= k / 16 (linear layout only)
  ScaleLayout scale_layout = ScaleLayout::linear;
  MemorySpace space = MemorySpace::host;
  GlobalScale global;
  std::optional<GlobalScale> input_global;  // static activation scale of a W4A4 checkpoint

  // Rows [begin, end) of the same tensor (tensor parallelism over n).
  // Preconditions: 0 <= begin <= end <= rows; linear scales.
  QuantizedTensor row_slice(std::int64_t begin, std::int64_t end) const;
  // Columns [begin, end) of the same tensor (tensor parallelism over k).
  // Preconditions: 0 <= begin <= end <= k, both multiples of 16; linear scales.
  QuantizedTensor k_slice(std::int64_t begin, std::int64_t end) const;
};

}  // namespace tetrad
