#include "tetrad/types.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace tetrad {
namespace {

struct TypeRow {
  DType type;
  std::string_view name;
  int bits;
};
constexpr std::array<TypeRow, 10> kTypes{{{DType::f32, "f32", 32},
                                          {DType::bf16, "bf16", 16},
                                          {DType::f16, "f16", 16},
                                          {DType::fp8, "fp8", 8},
                                          {DType::nvfp4, "nvfp4", 4},
                                          {DType::i8, "i8", 8},
                                          {DType::u8, "u8", 8},
                                          {DType::f64, "f64", 64},
                                          {DType::i32, "i32", 32},
                                          {DType::i64, "i64", 64}}};

const TypeRow& row_of(DType type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view name(DType type) { return row_of(type).name; }
int bits(DType type) { return row_of(type).bits; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const TypeRow& row : kTypes) {
    if (row.name == text) return row.type;
  }
  return std::nullopt;
}

float bf16_to_f32(std::uint16_t bits16) { return std::bit_cast<float>(std::uint32_t{bits16} << 16); }

std::uint16_t f32_to_bf16(float value) {
  std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((word >> 16) | 0x40U);
  word += 0x7FFFU + ((word >> 16) & 1U);
  return static_cast<std::uint16_t>(word >> 16);
}

float f16_to_f32(std::uint16_t bits16) {
  const std::uint32_t sign = std::uint32_t{bits16 & 0x8000U} << 16;
  const std::uint32_t magnitude = bits16 & 0x7FFFU;
  if (magnitude >= 0x7C00U) {  // Inf and NaN: widen the fraction, keep NaN quiet
    const std::uint32_t quiet = magnitude > 0x7C00U ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13) | quiet);
  }
  // 2^112 rebias the exponent; the multiplication is exact, subnormals included.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000U);
  const std::uint32_t magnitude = word & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65536
  if (magnitude < 0x38800000U) {  // below 2^-14: the result is a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyintf(scaled)));
  }
  const std::uint32_t rounded = magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float element(const ConstMatrix& matrix, std::int64_t row, std::int64_t col) {
  const std::size_t index = static_cast<std::size_t>(row * matrix.stride + col);
  if (matrix.type == DType::f32) {
    float value = 0.0F;
    std::memcpy(&value, static_cast<const unsigned char*>(matrix.data) + index * sizeof(float), sizeof(float));
    return value;
  }
  std::uint16_t word = 0;
  std::memcpy(&word, static_cast<const unsigned char*>(matrix.data) + index * sizeof(word), sizeof(word));
  if (matrix.type == DType::bf16) return bf16_to_f32(word);
  if (matrix.type == DType::f16) return f16_to_f32(word);
  return std::numeric_limits<float>::quiet_NaN();  // no other type is a matrix element
}

}  // namespace tetrad
