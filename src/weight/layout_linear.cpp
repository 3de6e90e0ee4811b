// linear/1: the checkpoint's own order, without gaps between rows.
//   code (r, c):  byte r * k/2 + c/2, low nibble for even c
//   scale (r, b): byte S + r * k/16 + b, S = rows * k/2 rounded up to 64
#include <cstring>

#include "tetrad/nvfp4.hpp"
#include "weight/layouts.hpp"

namespace tetrad::weight {

std::size_t linear1_scales_at(std::int64_t rows, std::int64_t k) {
  const auto codes = static_cast<std::size_t>(rows) * static_cast<std::size_t>(k / 2);
  return (codes + 63) / 64 * 64;
}

std::uint8_t scale_at(const QuantizedTensor& tensor, std::int64_t row, std::int64_t block) {
  if (tensor.scale_layout == ScaleLayout::linear) return tensor.scales[row * tensor.scale_stride + block];
  return tensor.scales[scale_offset(tensor.scale_layout, row, block, tensor.k / kBlock)];
}

namespace {

std::size_t bytes(std::int64_t rows, std::int64_t k) {
  return linear1_scales_at(rows, k) + static_cast<std::size_t>(rows) * static_cast<std::size_t>(k / kBlock);
}

void pack(const QuantizedTensor& from, std::uint8_t* to) {
  const auto code_row = static_cast<std::size_t>(from.k / 2);
  const std::int64_t blocks = from.k / kBlock;
  const std::size_t scales_at = linear1_scales_at(from.rows, from.k);
  const std::size_t codes = static_cast<std::size_t>(from.rows) * code_row;
  for (std::int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(to + static_cast<std::size_t>(r) * code_row, from.codes + r * from.code_stride, code_row);
  }
  std::memset(to + codes, 0, scales_at - codes);
  std::uint8_t* scale = to + scales_at;
  for (std::int64_t r = 0; r < from.rows; ++r) {
    for (std::int64_t b = 0; b < blocks; ++b) *scale++ = scale_at(from, r, b);
  }
}

void unpack(const std::uint8_t* from, std::int64_t rows, std::int64_t k, std::uint8_t* codes, std::uint8_t* scales) {
  std::memcpy(codes, from, static_cast<std::size_t>(rows) * static_cast<std::size_t>(k / 2));
  std::memcpy(scales, from + linear1_scales_at(rows, k),
              static_cast<std::size_t>(rows) * static_cast<std::size_t>(k / kBlock));
}

}  // namespace

const Layout kLinear1{
    .id = "linear/1",
    .formula =
        "code (r, c): byte r*k/2 + c/2, low nibble for even c; scale (r, b): byte S + r*k/16 + b, "
        "S = rows*k/2 rounded up to 64",
    .rows_multiple = 1,
    .k_multiple = kBlock,
    .bytes = bytes,
    .pack = pack,
    .unpack = unpack,
};

}  // namespace tetrad::weight
