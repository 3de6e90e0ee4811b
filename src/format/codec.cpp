#include <array>
#include <bit>
#include <cfloat>
#include <cmath>

#include "tetrad/nvfp4.hpp"

namespace tetrad {
namespace {

constexpr std::array<std::string_view, 3> kMethodNames = {"rtn", "four-over-six", "search"};
constexpr std::array<float, 16> kE2m1 = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace

float e2m1_decode(std::uint8_t code) { return kE2m1[code & 0xF]; }

std::uint8_t e2m1_encode(float value) {
  if (std::isnan(value)) return 7;
  const float a = std::fabs(value);
  int magnitude = 7;
  // A tie goes to the even code, so the bounds of even codes belong to them.
  if (a <= 0.25F) {
    magnitude = 0;
  } else if (a < 0.75F) {
    magnitude = 1;
  } else if (a <= 1.25F) {
    magnitude = 2;
  } else if (a < 1.75F) {
    magnitude = 3;
  } else if (a <= 2.5F) {
    magnitude = 4;
  } else if (a < 3.5F) {
    magnitude = 5;
  } else if (a <= 5.0F) {
    magnitude = 6;
  }
  return static_cast<std::uint8_t>(magnitude | (std::signbit(value) ? 8 : 0));
}

float ue4m3_decode(std::uint8_t byte) {
  const int exponent = (byte >> 3) & 0xF;
  const int mantissa = byte & 7;
  if ((byte & 0x7F) == 0x7F) return std::bit_cast<float>(0x7FC00000U);
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

std::uint8_t ue4m3_encode(float value, bool saturate) {
  if (std::isnan(value)) return 0x7F;
  const int sign = std::signbit(value) ? 0x80 : 0;
  const float a = std::fabs(value);
  int magnitude = 0;
  if (a > 464.0F) {
    magnitude = saturate ? 0x7E : 0x7F;
  } else if (a < 0x1p-6F) {
    // 2^14 has ulp 2^-9, the step of the subnormals: the addition rounds to nearest even. 8 is the smallest normal.
    magnitude = static_cast<int>(std::bit_cast<std::uint32_t>(a + 0x1p14F) - std::bit_cast<std::uint32_t>(0x1p14F));
  } else {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(a);
    const std::uint32_t rounded = bits + 0x7FFFFU + ((bits >> 20) & 1U);
    magnitude = static_cast<int>((rounded >> 20) - ((127U - 7U) << 3));
  }
  return static_cast<std::uint8_t>(magnitude | sign);
}

std::string_view name(QuantMethod method) { return kMethodNames[static_cast<std::size_t>(method)]; }

std::optional<QuantMethod> parse_quant_method(std::string_view text) {
  for (std::size_t i = 0; i < kMethodNames.size(); ++i) {
    if (kMethodNames[i] == text) return static_cast<QuantMethod>(i);
  }
  return std::nullopt;
}

float global_scale_for(float amax, QuantMethod method) {
  if (amax == 0.0F) return 1.0F;
  const float largest = method == QuantMethod::four_over_six ? kE2m1Max * 256.0F : kE2m1Max * kUe4m3Max;
  return std::fmax(amax / largest, FLT_MIN);
}

}  // namespace tetrad
