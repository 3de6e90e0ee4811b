// Layouts: the written formula, and unpack(pack(x)) == x for ragged shapes, strides and slices.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tetrad/nvfp4.hpp"
#include "tetrad/weight.hpp"

namespace tetrad {
namespace {

// A tensor with gaps between its rows, filled with different bytes.
struct Source {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  QuantizedTensor tensor;

  Source(std::int64_t rows, std::int64_t k, std::int64_t gap) {
    tensor.rows = rows;
    tensor.k = k;
    tensor.code_stride = k / 2 + gap;
    tensor.scale_stride = k / kBlock + gap;
    std::mt19937 random(static_cast<unsigned>(rows * 131 + k * 7 + gap));
    codes.resize(static_cast<std::size_t>(rows * tensor.code_stride));
    scales.resize(static_cast<std::size_t>(rows * tensor.scale_stride));
    for (auto& b : codes) b = static_cast<std::uint8_t>(random());
    for (auto& b : scales) b = static_cast<std::uint8_t>(random() % 0x7F);
    tensor.codes = codes.data();
    tensor.scales = scales.data();
    tensor.global = {0.0123F, GlobalScale::Kind::divisor};
    tensor.input_global = GlobalScale{3.5F, GlobalScale::Kind::multiplier};
  }
};

void expect_round_trip(const QuantizedTensor& tensor, std::string_view layout) {
  Result<PackedWeight> packed = pack(tensor, layout);
  ASSERT_TRUE(packed) << packed.error().what;
  EXPECT_EQ(packed->layout, layout);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packed->data.get()) % 64, 0U);
  EXPECT_EQ(packed->global.value, tensor.global.value);
  EXPECT_EQ(packed->global.kind, tensor.global.kind);
  EXPECT_EQ(packed->input_global.has_value(), tensor.input_global.has_value());
  const auto code_row = static_cast<std::size_t>(tensor.k / 2);
  const auto scale_row = static_cast<std::size_t>(tensor.k / kBlock);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(tensor.rows) * code_row, 0xEE);
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(tensor.rows) * scale_row, 0xEE);
  ASSERT_TRUE(unpack(*packed, codes.data(), scales.data()));
  for (std::int64_t r = 0; r < tensor.rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    ASSERT_EQ(0, std::memcmp(&codes[row * code_row], tensor.codes + r * tensor.code_stride, code_row)) << "row " << r;
    ASSERT_EQ(0, std::memcmp(&scales[row * scale_row], tensor.scales + r * tensor.scale_stride, scale_row))
        << "row " << r;
  }
}

TEST(Weight, RoundTripOfRaggedShapes) {
  for (const Layout& layout : layouts()) {
    for (std::int64_t rows : {1, 2, 3, 7, 16, 31, 129}) {
      for (std::int64_t k : {16, 32, 48, 80, 272}) {
        if (rows % layout.rows_multiple != 0 || k % layout.k_multiple != 0) continue;
        for (std::int64_t gap : {0, 5}) expect_round_trip(Source(rows, k, gap).tensor, layout.id);
      }
    }
  }
}

TEST(Weight, RoundTripOfSlices) {
  const Source source(37, 160, 3);
  for (const Layout& layout : layouts()) {
    expect_round_trip(source.tensor.row_slice(5, 22), layout.id);
    expect_round_trip(source.tensor.k_slice(48, 128), layout.id);
    expect_round_trip(source.tensor.row_slice(36, 37).k_slice(144, 160), layout.id);
  }
}

// The formula of linear/1, written out a second time.
TEST(Weight, LinearFormula) {
  const Source source(3, 48, 7);
  Result<PackedWeight> packed = pack(source.tensor, "linear/1");
  ASSERT_TRUE(packed);
  ASSERT_EQ(packed->bytes, 128U + 9U);  // 72 code bytes rounded up to 128, 9 scales
  const std::uint8_t* bytes = packed->data.get();
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 48; ++c) {
      const int shift = c % 2 == 0 ? 0 : 4;
      EXPECT_EQ((bytes[r * 24 + c / 2] >> shift) & 15, (source.codes[r * 31 + c / 2] >> shift) & 15);
    }
    for (int b = 0; b < 3; ++b) EXPECT_EQ(bytes[128 + r * 3 + b], source.scales[r * 10 + b]);
  }
  for (int i = 72; i < 128; ++i) EXPECT_EQ(bytes[i], 0);
}

TEST(Weight, SwizzledScalesAreReadThroughTheirLayout) {
  Source source(37, 160, 0);
  std::vector<std::uint8_t> swizzled(scale_bytes(ScaleLayout::swizzle_128x4, 37, 10));
  scale_pack(ScaleLayout::swizzle_128x4, source.scales.data(), 37, 10, swizzled.data());
  QuantizedTensor tensor = source.tensor;
  tensor.scales = swizzled.data();
  tensor.scale_layout = ScaleLayout::swizzle_128x4;
  Result<PackedWeight> packed = pack(tensor, "linear/1");
  ASSERT_TRUE(packed);
  std::vector<std::uint8_t> codes(37 * 80);
  std::vector<std::uint8_t> scales(37 * 10);
  ASSERT_TRUE(unpack(*packed, codes.data(), scales.data()));
  EXPECT_EQ(scales, source.scales);
}

TEST(Weight, ViewDecodesTheSameValues) {
  const Source source(9, 64, 4);
  Result<PackedWeight> packed = pack(source.tensor, "linear/1");
  ASSERT_TRUE(packed);
  Result<QuantizedTensor> seen = view(*packed);
  ASSERT_TRUE(seen);
  std::vector<float> want(9 * 64);
  std::vector<float> have(9 * 64);
  dequantize(source.tensor, want.data(), 1);
  dequantize(*seen, have.data(), 1);
  EXPECT_EQ(0, std::memcmp(want.data(), have.data(), want.size() * sizeof(float)));
}

TEST(Weight, Refusals) {
  const Source source(4, 32, 0);
  Result<PackedWeight> unknown = pack(source.tensor, "linaer/1");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().id, "TE0251");
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);

  QuantizedTensor bad = source.tensor;
  bad.k = 24;
  EXPECT_EQ(pack(bad, "linear/1").error().id, "TE0252");
  bad = source.tensor;
  bad.rows = 0;
  EXPECT_EQ(pack(bad, "linear/1").error().id, "TE0252");
  bad = source.tensor;
  bad.space = MemorySpace::device;
  EXPECT_EQ(pack(bad, "linear/1").error().id, "TE0252");
  bad = source.tensor;
  bad.code_stride = 15;
  EXPECT_EQ(pack(bad, "linear/1").error().id, "TE0252");

  Result<PackedWeight> packed = pack(source.tensor, "linear/1");
  ASSERT_TRUE(packed);
  PackedWeight cut = *packed;
  cut.bytes -= 1;
  std::vector<std::uint8_t> codes(64);
  std::vector<std::uint8_t> scales(8);
  EXPECT_EQ(unpack(cut, codes.data(), scales.data()).error().id, "TE0252");
}

}  // namespace
}  // namespace tetrad
