// Element types and views of dense matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tetrad {

// Names as printed and parsed: "f32", "bf16", "f16", "fp8" (E4M3), "nvfp4", "i8", "u8", "f64", "i32", "i64".
enum class DType : std::uint8_t { f32, bf16, f16, fp8, nvfp4, i8, u8, f64, i32, i64 };

std::string_view name(DType type);
std::optional<DType> parse_dtype(std::string_view text);
// Bits of one element; nvfp4 counts the codes alone (4).
int bits(DType type);

// A read-only row-major matrix [rows, cols]; `stride` is the distance of rows in elements (>= cols).
struct ConstMatrix {
  const void* data = nullptr;
  DType type = DType::f32;  // f32, bf16 or f16
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

// A writable row-major matrix [rows, cols]; `stride` in elements (>= cols).
struct Matrix {
  void* data = nullptr;
  DType type = DType::f32;  // f32, bf16 or f16
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

// Conversions of single elements; rounding is to nearest even, NaN stays NaN (quiet), overflow gives Inf.
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
// Element (row, col) of a matrix as fp32 (exact for every supported type).
float element(const ConstMatrix& matrix, std::int64_t row, std::int64_t col);

}  // namespace tetrad
