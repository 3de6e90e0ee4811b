#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "format/profiles.hpp"
#include "vectors.hpp"

namespace tetrad::format {
namespace {

std::uint32_t to_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

const char* kZero = "0000000000000000";

std::string codes_of(const char* b0, const char* b1, const char* b3) { return std::string(b0) + b1 + kZero + b3; }

void check(const std::array<float, 64>& tensor, float amax, const Profile& profile, std::uint32_t global,
           const std::string& scales, const std::string& codes) {
  const GlobalScale scale = profile_global(profile, amax);
  EXPECT_EQ(to_bits(scale.value), global);
  std::vector<std::uint8_t> got_codes(32);
  std::vector<std::uint8_t> got_scales(4);
  profile_encode(profile, matrix_of(tensor.data(), 1, 64), scale.value, got_codes.data(), got_scales.data());
  EXPECT_EQ(got_scales, hex_bytes(scales));
  EXPECT_EQ(got_codes, hex_bytes(codes));
}

TEST(Profile, TensorT) {
  const char* b0 = "e7c6a39280c6c201";
  const char* b1 = "d791a7c3e680f5c2";
  const auto t = tensor_t();
  check(t, 3.0F, kModelOpt, 0x3A924925, "7e6f3801", codes_of(b0, b1, "b3a2100000000000"));
  check(t, 3.0F, kCompressedTensorsBf16, 0x44600000, "7e6f2020", codes_of(b0, b1, "8080000000000000"));
  check(t, 3.0F, kCompressedTensorsF32, 0x44600000, "7e6f2020", codes_of(b0, b1, "8080000000000000"));
  check(t, 3.0F, kTransformerEngine, 0x44600000, "7e6f0000", codes_of(b0, b1, "f7f7700000000000"));
  check(t, 3.0F, tetrad_profile(QuantMethod::rtn), 0x3A924925, "7e6f3801", codes_of(b0, b1, "b3a2100000000000"));
}

TEST(Profile, TensorU) {
  const char* b0 = "f7d6a39281c6c301";
  const char* b1 = "d792a7c3e680f5c2";
  const auto u = tensor_u();
  check(u, 2.796875F, kModelOpt, 0x3A886186, "7e703801", codes_of(b0, b1, "c4a2100000000000"));
  check(u, 2.796875F, kCompressedTensorsBf16, 0x44700000, "7e702020", codes_of(b0, b1, "8080000000000000"));
  check(u, 2.796875F, kCompressedTensorsF32, 0x447044A5, "7e702020", codes_of(b0, b1, "8080000000000000"));
  check(u, 2.796875F, kTransformerEngine, 0x447044A6, "7e700000", codes_of(b0, b1, "f7f7700000000000"));
}

TEST(Profile, ModelOptWritesZeroForNegativeZero) {
  std::array<float, 16> x{};
  x[0] = 1.0F;
  x[1] = -0.0F;
  x[2] = -0.001F;
  std::array<std::uint8_t, 8> codes{};
  std::uint8_t scale = 0;
  profile_encode(kModelOpt, matrix_of(x.data(), 1, 16), 1.0F / 2688, codes.data(), &scale);
  EXPECT_EQ(codes[0], 0x07);
  EXPECT_EQ(codes[1], 0x08) << "a tiny negative keeps its sign";
  profile_encode(tetrad_profile(QuantMethod::rtn), matrix_of(x.data(), 1, 16), 1.0F / 2688, codes.data(), &scale);
  EXPECT_EQ(codes[0], 0x87);
}

TEST(Profile, AllZeroTensors) {
  const std::array<float, 64> zeros{};
  const std::string codes(64, '0');
  check(zeros, 0.0F, kCompressedTensorsBf16, 0x3F800000, "20202020", codes);
  check(zeros, 0.0F, kTransformerEngine, 0x3F800000, "00000000", codes);
  check(zeros, 0.0F, tetrad_profile(QuantMethod::rtn), 0x3F800000, "38383838", codes);
  check(zeros, 0.0F, tetrad_profile(QuantMethod::search), 0x3F800000, "38383838", codes);
}

// The two conventions of one global scale; fp32 reciprocals do not round-trip.
TEST(Profile, GlobalScaleConventions) {
  const auto inverse = [](std::uint32_t bits) { return to_bits(1.0F / std::bit_cast<float>(bits)); };
  const std::uint32_t rows[][3] = {{0x3A924925, 0x445FFFFF, 0x3A924925},
                                   {0x3A886186, 0x447044A6, 0x3A886186},
                                   {0x44600000, 0x3A924925, 0x445FFFFF},
                                   {0x44700000, 0x3A888889, 0x446FFFFF},
                                   {0x447044A5, 0x3A886187, 0x447044A4}};
  for (const auto& row : rows) {
    EXPECT_EQ(inverse(row[0]), row[1]);
    EXPECT_EQ(inverse(row[1]), row[2]);
  }
  const GlobalScale divisor{std::bit_cast<float>(0x44600000U), GlobalScale::Kind::divisor};
  EXPECT_EQ(divisor.decode(), 1.0 / 896.0) << "kept as stored, not converted";
}

TEST(Profile, DecodedBlocks) {
  const std::uint32_t want_t[16] = {0x3f4db6dc, 0xbecdb6dc, 0x3d892493, 0xbd892493, 0x3f4db6dc, 0xbe092493,
                                    0x3e4db6dc, 0xbe892493, 0x3f092493, 0xbf092493, 0x00000000, 0x80000000,
                                    0x3ecdb6dc, 0xbf4db6dc, 0x3e092493, 0xbe892493};
  const std::uint32_t want_u[16] = {0x3f4c9249, 0xbecc9249, 0x3e086186, 0xbd886186, 0x3f4c9249, 0xbe086186,
                                    0x3e4c9249, 0xbe886186, 0x3f086186, 0xbf086186, 0x00000000, 0x80000000,
                                    0x3ecc9249, 0xbf4c9249, 0x3e086186, 0xbe886186};
  for (const bool second : {false, true}) {
    const auto tensor = second ? tensor_u() : tensor_t();
    const float global = global_scale_for(second ? 2.796875F : 3.0F, QuantMethod::rtn);
    std::array<std::uint8_t, 32> codes{};
    std::array<std::uint8_t, 4> scales{};
    ASSERT_TRUE(quantize(matrix_of(tensor.data(), 1, 64), global, QuantMethod::rtn, codes.data(), scales.data()));
    const QuantizedTensor view{.rows = 1,
                               .k = 64,
                               .codes = codes.data(),
                               .code_stride = 32,
                               .scales = scales.data(),
                               .scale_stride = 4,
                               .global = {global, GlobalScale::Kind::multiplier},
                               .input_global = {}};
    std::array<float, 64> out{};
    dequantize(view, out.data());
    for (int i = 0; i < 16; ++i) EXPECT_EQ(to_bits(out[16 + i]), (second ? want_u : want_t)[i]) << i;
  }
}

// A dot of 32 quantised values with exact integer sums.
TEST(Profile, DotOfQuantisedActivationsAndWeights) {
  const auto t = tensor_t();
  const auto u = tensor_u();
  std::array<float, 32> a{};
  std::array<float, 32> b{};
  for (int i = 0; i < 32; ++i) {
    a[i] = t[(i + 16) % 32];
    b[i] = u[(7 * i + 3) % 32];
  }
  const float ga = std::bit_cast<float>(0x3A924925U);
  const float gb = std::bit_cast<float>(0x3A886186U);
  std::array<std::uint8_t, 16> pa{};
  std::array<std::uint8_t, 16> pb{};
  std::array<std::uint8_t, 2> sa{};
  std::array<std::uint8_t, 2> sb{};
  quantize_activations(matrix_of(a.data(), 1, 32), ga, pa.data(), sa.data());
  ASSERT_TRUE(quantize(matrix_of(b.data(), 1, 32), gb, QuantMethod::rtn, pb.data(), sb.data()));
  const auto bytes = [](const auto& array) { return std::vector<std::uint8_t>(array.begin(), array.end()); };
  EXPECT_EQ(bytes(sa), hex_bytes("6f7e"));
  EXPECT_EQ(bytes(pa), hex_bytes("d791a7c3e680f5c2e7c6a39280c6c201"));
  EXPECT_EQ(bytes(sb), hex_bytes("7a7e"));
  EXPECT_EQ(bytes(pb), hex_bytes("7e3a2a4d78481a4b081f103b0c7b1929"));
  // 2 e2m1 and 512 ue4m3 are integers.
  std::int64_t sum = 0;
  for (int i = 0; i < 32; ++i) {
    const auto code = [i](const auto& packed) { return static_cast<std::uint8_t>(packed[i / 2] >> (i % 2 * 4)); };
    const auto integer = [](float value, float unit) { return static_cast<std::int64_t>(value * unit); };
    sum += integer(e2m1_decode(code(pa)), 2) * integer(ue4m3_decode(sa[i / 16]), 512) *
           integer(e2m1_decode(code(pb)), 2) * integer(ue4m3_decode(sb[i / 16]), 512);
  }
  // The vector counts in units of 1/4 for the elements alone times whole scales.
  const double exact = static_cast<double>(sum) / (4.0 * 512 * 512);
  EXPECT_EQ(exact, -13152640.0);
  const float alpha = ga * gb;
  EXPECT_EQ(to_bits(alpha), 0x359BDD2CU);
  EXPECT_EQ(to_bits(static_cast<float>(exact * alpha)), 0xC17461B8U);
  EXPECT_EQ(f32_to_bf16(static_cast<float>(exact * alpha)), 0xC174);
}

}  // namespace
}  // namespace tetrad::format
