#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tetrad/nvfp4.hpp"

namespace tetrad {
namespace {

TEST(ScaleLayout, Offsets) {
  const std::int64_t rows[][5] = {{0, 0, 8, 0, 0},         {0, 4, 8, 512, 32},      {1, 0, 8, 16, 4},
                                  {31, 3, 8, 499, 223},    {32, 0, 8, 4, 256},      {33, 1, 8, 21, 261},
                                  {95, 6, 8, 1018, 766},   {127, 7, 8, 1023, 1023}, {128, 0, 8, 1024, 1024},
                                  {130, 5, 8, 1569, 1065}, {130, 5, 6, 1569, 1065}, {200, 2, 5, 1162, 1602}};
  for (const auto& row : rows) {
    EXPECT_EQ(scale_offset(ScaleLayout::swizzle_128x4, row[0], row[1], row[2]), row[3]);
    EXPECT_EQ(scale_offset(ScaleLayout::swizzle_8x4, row[0], row[1], row[2]), row[4]);
    EXPECT_EQ(scale_offset(ScaleLayout::linear, row[0], row[1], row[2]), row[0] * row[2] + row[1]);
  }
}

TEST(ScaleLayout, SmallMatrixIn128x4) {
  std::vector<std::uint8_t> linear;
  for (int m = 0; m < 3; ++m) {
    for (int k = 0; k < 5; ++k) linear.push_back(static_cast<std::uint8_t>(16 * m + k + 1));
  }
  ASSERT_EQ(scale_bytes(ScaleLayout::swizzle_128x4, 3, 5), 1024U);
  std::vector<std::uint8_t> want(1024, 0);
  for (int m = 0; m < 3; ++m) {
    for (int k = 0; k < 4; ++k) want[static_cast<std::size_t>(16 * m + k)] = static_cast<std::uint8_t>(16 * m + k + 1);
    want[static_cast<std::size_t>(512 + 16 * m)] = static_cast<std::uint8_t>(16 * m + 5);
  }
  std::vector<std::uint8_t> packed(1024, 0xAA);
  scale_pack(ScaleLayout::swizzle_128x4, linear.data(), 3, 5, packed.data());
  EXPECT_EQ(packed, want);
}

TEST(ScaleLayout, RoundTripsOnRaggedShapes) {
  for (const ScaleLayout layout : {ScaleLayout::linear, ScaleLayout::swizzle_128x4, ScaleLayout::swizzle_8x4}) {
    for (const std::int64_t rows : {1, 7, 8, 9, 31, 33, 127, 128, 129, 300}) {
      for (const std::int64_t blocks : {1, 2, 3, 4, 5, 8, 13}) {
        const auto count = static_cast<std::size_t>(rows * blocks);
        std::vector<std::uint8_t> linear(count);
        for (std::size_t i = 0; i < count; ++i) linear[i] = static_cast<std::uint8_t>(1 + i % 126);
        std::vector<std::uint8_t> packed(scale_bytes(layout, rows, blocks) + 1, 0xEE);
        scale_pack(layout, linear.data(), rows, blocks, packed.data());
        EXPECT_EQ(packed.back(), 0xEE) << "wrote past its bytes";
        packed.pop_back();
        // Every scale has its own byte, and all else is zero.
        std::set<std::size_t> used;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t block = 0; block < blocks; ++block) used.insert(scale_offset(layout, row, block, blocks));
        }
        EXPECT_EQ(used.size(), count);
        EXPECT_LT(*used.rbegin(), packed.size());
        for (std::size_t i = 0; i < packed.size(); ++i) {
          EXPECT_TRUE(used.contains(i) || packed[i] == 0);
        }
        std::vector<std::uint8_t> back(count, 0);
        scale_unpack(layout, packed.data(), rows, blocks, back.data());
        EXPECT_EQ(back, linear);
      }
    }
  }
}

struct Tensor {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  QuantizedTensor view;
};

Tensor pattern(std::int64_t rows, std::int64_t k) {
  Tensor t;
  t.codes.resize(static_cast<std::size_t>(rows * k / 2));
  t.scales.resize(static_cast<std::size_t>(rows * k / 16));
  for (std::size_t i = 0; i < t.codes.size(); ++i) t.codes[i] = static_cast<std::uint8_t>(i * 37 + 11);
  for (std::size_t i = 0; i < t.scales.size(); ++i) t.scales[i] = static_cast<std::uint8_t>((i * 29 + 3) % 0x7F);
  t.view.rows = rows;
  t.view.k = k;
  t.view.codes = t.codes.data();
  t.view.code_stride = k / 2;
  t.view.scales = t.scales.data();
  t.view.scale_stride = k / 16;
  t.view.global = {0.0078125F, GlobalScale::Kind::multiplier};
  return t;
}

TEST(QuantizedTensor, SlicesAreThePartsOfTheWhole) {
  const Tensor t = pattern(6, 96);
  std::vector<float> whole(6 * 96);
  dequantize(t.view, whole.data());
  const QuantizedTensor part = t.view.row_slice(2, 5).k_slice(32, 80);
  ASSERT_EQ(part.rows, 3);
  ASSERT_EQ(part.k, 48);
  std::vector<float> got(3 * 48);
  dequantize(part, got.data());
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t col = 0; col < 48; ++col) EXPECT_EQ(got[row * 48 + col], whole[(row + 2) * 96 + col + 32]);
  }
}

TEST(QuantizedTensor, SwizzledScalesDecodeAlike) {
  const Tensor t = pattern(37, 80);
  std::vector<float> want(37 * 80);
  dequantize(t.view, want.data());
  for (const ScaleLayout layout : {ScaleLayout::swizzle_128x4, ScaleLayout::swizzle_8x4}) {
    std::vector<std::uint8_t> packed(scale_bytes(layout, 37, 5));
    scale_pack(layout, t.scales.data(), 37, 5, packed.data());
    QuantizedTensor view = t.view;
    view.scales = packed.data();
    view.scale_layout = layout;
    std::vector<float> got(37 * 80);
    dequantize(view, got.data());
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace tetrad
