// mma16/1: tiles of 16 rows in the order of the registers of mma.sync and wgmma. docs/packed-layout.md has the reasons.
#include <cstring>

#include "weight/layouts.hpp"
#include "weight/mma16.hpp"

namespace tetrad::weight {

namespace {

std::size_t bytes(std::int64_t rows, std::int64_t k) { return static_cast<std::size_t>(mma16_bytes(rows, k)); }

std::uint8_t nibble(std::uint8_t byte, std::int64_t odd) {
  return static_cast<std::uint8_t>(odd == 0 ? byte & 15U : byte >> 4);
}

void pack(const QuantizedTensor& from, std::uint8_t* to) {
  std::memset(to, 0, bytes(from.rows, from.k));
  for (std::int64_t r = 0; r < from.rows; ++r) {
    const std::uint8_t* row = from.codes + r * from.code_stride;
    for (std::int64_t c = 0; c < from.k; c += 2) {
      // The two codes of a source byte are neighbours along k: same nibble, two bytes apart.
      const Mma16Code at = mma16_code(r, c, from.k);
      const std::uint8_t pair = row[c / 2];
      to[at.byte] = static_cast<std::uint8_t>(to[at.byte] | nibble(pair, 0) << at.shift);
      to[at.byte + 2] = static_cast<std::uint8_t>(to[at.byte + 2] | nibble(pair, 1) << at.shift);
    }
    for (std::int64_t b = 0; b < from.k / kBlock; ++b) to[mma16_scale(r, b, from.k)] = scale_at(from, r, b);
  }
}

void unpack(const std::uint8_t* from, std::int64_t rows, std::int64_t k, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < k; c += 2) {
      const Mma16Code at = mma16_code(r, c, k);
      const auto low = static_cast<std::uint8_t>(from[at.byte] >> at.shift & 15U);
      const auto high = static_cast<std::uint8_t>(from[at.byte + 2] >> at.shift & 15U);
      codes[r * (k / 2) + c / 2] = static_cast<std::uint8_t>(low | high << 4);
    }
    for (std::int64_t b = 0; b < k / kBlock; ++b) scales[r * (k / kBlock) + b] = from[mma16_scale(r, b, k)];
  }
}

}  // namespace

const Layout kMma16{
    .id = "mma16/1",
    .formula =
        "G = ceil(k/64), tile T = r/16 at byte 576*G*T; code (r, c): + 512*(c/64) + 16*(4*(r%8) + ((c/2%4) xor "
        "(r/2%2)))"
        " + 4*(c/16%4) + 2*(c%2) + r/8%2, high nibble where c/8 is odd; scale (r, b): + 512*G + 64*(b/4) + 8*(r%8) + "
        "2*(b%4) + r/8%2; rows up to 16 and k up to 64 are padded with zero",
    .rows_multiple = 1,
    .k_multiple = kBlock,
    .bytes = bytes,
    .pack = pack,
    .unpack = unpack,
};

}  // namespace tetrad::weight
