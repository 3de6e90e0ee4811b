#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "fixture.hpp"
#include "tetrad/nvfp4.hpp"

namespace tetrad {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t to_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

std::uint8_t encode(const std::string& kind, float value) {
  return kind == "e2m1" ? e2m1_encode(value) : ue4m3_encode(value, kind == "e4m3_sat");
}

std::uint64_t digest(const std::string& kind, const std::string& type, std::uint32_t part) {
  std::uint64_t sum = 0;
  const std::uint32_t count = type == "f32" ? 1U << 20 : 1U << 16;
  for (std::uint32_t j = 0; j < count; ++j) {
    const std::uint32_t i = part * count + j;
    float value = 0.0F;
    if (type == "f32") {
      value = from_bits((i << 8) | (i * 73U & 0xFFU));
    } else {
      value = type == "f16" ? f16_to_f32(static_cast<std::uint16_t>(i)) : bf16_to_f32(static_cast<std::uint16_t>(i));
    }
    if (!std::isnan(value)) sum += (std::uint64_t{encode(kind, value)} + 1) * fixture_mix(i);
  }
  return sum;
}

class Fixture : public testing::TestWithParam<const char*> {};

TEST_P(Fixture, EveryLineAgrees) {
  const std::vector<FixtureLine> lines = read_fixture(GetParam());
  int values = 0;
  int points = 0;
  int sweeps = 0;
  for (const FixtureLine& line : lines) {
    if (line.what == "value") {
      const auto code = static_cast<std::uint8_t>(line.a);
      EXPECT_EQ(to_bits(line.kind == "e2m1" ? e2m1_decode(code) : ue4m3_decode(code)), line.b)
          << line.kind << " code " << line.a;
      ++values;
    } else if (line.what == "point") {
      EXPECT_EQ(encode(line.kind, from_bits(line.a)), line.b) << line.kind << " of " << from_bits(line.a);
      ++points;
    } else {
      EXPECT_EQ(digest(line.kind, line.text, line.a), line.b) << line.kind << " " << line.text << " part " << line.a;
      ++sweeps;
    }
  }
  EXPECT_EQ(values, 16 + 127);
  EXPECT_GE(points, 1900);
  EXPECT_GE(sweeps, 36);
}

INSTANTIATE_TEST_SUITE_P(Codec, Fixture, testing::Values("cuda.txt", "ml_dtypes.txt"));

TEST(Codec, E2m1Vector) {
  const float inf = std::numeric_limits<float>::infinity();
  const float in[] = {.25F, .75F, 1.25F, 1.75F, 2.5F, 3.5F, 5, -.25F, -.1F, -0.0F, 6.5F, 1e30F, inf, std::nanf("")};
  const int want[] = {0, 2, 2, 4, 4, 6, 6, 8, 8, 8, 7, 7, 7, 7};
  for (int i = 0; i < 14; ++i) EXPECT_EQ(e2m1_encode(in[i]), want[i]) << in[i];
  EXPECT_EQ(e2m1_encode(-inf), 0xF);
}

TEST(Codec, E4m3Vector) {
  const float inf = std::numeric_limits<float>::infinity();
  const struct {
    float value;
    int nosat, sat;
  } rows[] = {{448, 0x7E, 0x7E},
              {460, 0x7E, 0x7E},
              {464, 0x7E, 0x7E},
              {std::nextafter(464.0F, inf), 0x7F, 0x7E},
              {480, 0x7F, 0x7E},
              {inf, 0x7F, 0x7E},
              {std::nanf(""), 0x7F, 0x7F},
              {0x1p-10F, 0, 0},
              {std::nextafter(0x1p-10F, 1.0F), 1, 1},
              {3 * 0x1p-10F, 2, 2},
              {0x1p-9F, 1, 1},
              {7.5F * 0x1p-9F, 8, 8},
              {1.0625F, 0x38, 0x38},
              {1.1875F, 0x3A, 0x3A},
              {0.1328125F, 0x20, 0x20}};
  for (const auto& row : rows) {
    EXPECT_EQ(ue4m3_encode(row.value, false), row.nosat) << row.value;
    EXPECT_EQ(ue4m3_encode(row.value, true), row.sat) << row.value;
  }
  EXPECT_EQ(ue4m3_encode(-1.0F), 0xB8) << "a negative stays visible";
  EXPECT_TRUE(std::isnan(ue4m3_decode(0x7F)));
  EXPECT_EQ(ue4m3_decode(0xB8), 1.0F) << "the sign bit is ignored when decoding";
}

TEST(Codec, EveryFiniteCodeRoundTrips) {
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(e2m1_encode(e2m1_decode(static_cast<std::uint8_t>(code))), code);
  }
  for (int byte = 0; byte < 0x7F; ++byte) {
    EXPECT_EQ(ue4m3_encode(ue4m3_decode(static_cast<std::uint8_t>(byte)), false), byte);
  }
}

TEST(Codec, MethodNamesParseBack) {
  for (const QuantMethod method : {QuantMethod::rtn, QuantMethod::four_over_six, QuantMethod::search}) {
    EXPECT_EQ(parse_quant_method(name(method)), method);
  }
  EXPECT_FALSE(parse_quant_method("RTN").has_value());
}

TEST(Codec, GlobalScale) {
  EXPECT_EQ(to_bits(global_scale_for(3.0F, QuantMethod::rtn)), 0x3A924925U);
  EXPECT_EQ(to_bits(global_scale_for(40.0F, QuantMethod::four_over_six)), 0x3CD55555U);
  EXPECT_EQ(global_scale_for(0.0F, QuantMethod::search), 1.0F);
  EXPECT_TRUE(std::isnormal(global_scale_for(1e-45F, QuantMethod::rtn)));
}

}  // namespace
}  // namespace tetrad
