#include "format/repack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "vectors.hpp"

namespace tetrad::format {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(Repack, GgufVector) {
  const Bytes codes = hex_bytes("e7c6a39280c6c201 d791a7c3e680f5c2 0000000000000000 b3a2100000000000");
  const Bytes scales = hex_bytes("7e6f3801");
  Bytes blocks(36);
  gguf_pack(codes.data(), scales.data(), 1, 64, blocks.data());
  EXPECT_EQ(blocks, hex_bytes("7e6f3801 078e66cc23ca1209 67ed018957fa23cc 0000000000000000 030b020a00010000"));
}

TEST(Repack, GgufInverse) {
  Bytes codes(3 * 64);
  Bytes scales(3 * 8);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37 + 5);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(i * 5 + 1);
  Bytes blocks(3 * 2 * 36);
  gguf_pack(codes.data(), scales.data(), 3, 128, blocks.data());
  Bytes back_codes(codes.size());
  Bytes back_scales(scales.size());
  gguf_unpack(blocks.data(), 3, 128, back_codes.data(), back_scales.data());
  EXPECT_EQ(back_codes, codes);
  EXPECT_EQ(back_scales, scales);
}

TEST(Repack, MarlinCodes) {
  constexpr std::int64_t kN = 128;
  constexpr std::int64_t kK = 32;
  Bytes codes(kN * kK / 2);
  for (std::int64_t n = 0; n < kN; ++n) {
    for (std::int64_t k = 0; k < kK; k += 2) {
      codes[static_cast<std::size_t>((n * kK + k) / 2)] =
          static_cast<std::uint8_t>(((3 * n + 5 * k) & 15) | ((3 * n + 5 * (k + 1)) & 15) << 4);
    }
  }
  std::vector<std::uint32_t> words(kK / 16 * 2 * kN);
  marlin_codes(codes.data(), kN, kK, words.data());
  const auto word = [&](std::size_t kt, std::size_t nt, std::size_t lane, std::size_t w) {
    return words[(kt * (kN / 64) + nt) * 128 + lane * 4 + w];
  };
  EXPECT_EQ(word(0, 0, 0, 0), 0x5DD50880U);
  EXPECT_EQ(word(0, 0, 1, 0), 0xF77FA22AU);
  EXPECT_EQ(word(0, 0, 4, 0), 0x80083BB3U);
  EXPECT_EQ(word(0, 0, 0, 1), 0x5DD50880U);
  EXPECT_EQ(word(1, 0, 31, 3), 0x80083BB3U);
  EXPECT_EQ(word(0, 1, 5, 2), 0x2AA2D55DU);
}

TEST(Repack, MarlinScales) {
  const Bytes in = hex_bytes("000107081038397e");
  const Bytes want = hex_bytes("0000008088b0b1f6");
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(marlin_scale(in[i], 1.0F), want[i]);
  EXPECT_EQ(marlin_scale(0x07, 2.0F), marlin_scale(0x0E, 1.0F)) << "a factor saves small scales";
  Bytes scales(128 * 2);
  for (std::size_t row = 0; row < 128; ++row) {
    scales[row * 2] = static_cast<std::uint8_t>(row);
    scales[row * 2 + 1] = static_cast<std::uint8_t>(row + 128);
  }
  Bytes out(scales.size());
  marlin_scale_order(scales.data(), 128, 2, out.data());
  const Bytes first = {0, 16, 8, 24, 32, 48, 40, 56, 1, 17, 9, 25};
  EXPECT_TRUE(std::equal(first.begin(), first.end(), out.begin()));
  EXPECT_EQ(out[64], 64) << "the second 64 columns";
  EXPECT_EQ(out[128], 128) << "the second block";
  Bytes sorted = out;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i);
}

TEST(Repack, Mxfp4KeepsWhatFits) {
  const Bytes mx_scales = {130, 125, 0, 112};
  Bytes mx_codes(64);
  for (std::size_t i = 0; i < 32; ++i) mx_codes[i] = static_cast<std::uint8_t>(i * 41 + 7);
  for (std::size_t i = 48; i < 64; ++i) mx_codes[i] = 0x47;
  Bytes codes(64, 0xEE);
  Bytes scales(8, 0xEE);
  const Result<float> global = mxfp4_to_nvfp4(mx_codes.data(), mx_scales.data(), 1, 128, codes.data(), scales.data());
  ASSERT_TRUE(global.has_value());
  EXPECT_EQ(*global, 0.03125F);
  EXPECT_EQ(Bytes(scales.begin(), scales.begin() + 4), hex_bytes("78785050"));
  EXPECT_TRUE(std::equal(codes.begin(), codes.begin() + 32, mx_codes.begin()));
  for (std::size_t i = 32; i < 48; ++i) EXPECT_EQ(codes[i], 0);
  // 2^-15 is 2^-10 of the global scale, below the smallest subnormal: 6 * 2^-10 becomes 3 * 2^-9.
  EXPECT_EQ(scales[6], 0x01);
  EXPECT_EQ(codes[48], 0x25);
}

TEST(Repack, Mxfp4RefusesNaN) {
  const Bytes mx_scales = {127, 127, 127, 255};
  const Bytes mx_codes(64);
  Bytes codes(64);
  Bytes scales(8);
  const Result<float> global = mxfp4_to_nvfp4(mx_codes.data(), mx_scales.data(), 2, 64, codes.data(), scales.data());
  ASSERT_FALSE(global.has_value());
  EXPECT_EQ(global.error().id, "TE0405");
  EXPECT_EQ(global.error().where, "row 1, column 32");
}

TEST(Repack, Mxfp4AllZero) {
  const Bytes mx_scales(4, 0);
  const Bytes mx_codes(64, 0);
  Bytes codes(64, 1);
  Bytes scales(8, 0);
  EXPECT_EQ(mxfp4_to_nvfp4(mx_codes.data(), mx_scales.data(), 1, 128, codes.data(), scales.data()).value(), 1.0F);
  EXPECT_EQ(codes, mx_codes);
  for (const std::uint8_t scale : scales) EXPECT_LT(scale, 0x7F);
}

}  // namespace
}  // namespace tetrad::format
