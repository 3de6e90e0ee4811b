#include "format/repack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "format/rows.hpp"

namespace tetrad::format {
namespace {

unsigned code_at(const std::uint8_t* row, std::int64_t element) {
  return (unsigned{row[element / 2]} >> (element % 2 * 4)) & 0xFU;
}

std::uint8_t pair(unsigned low, unsigned high) { return static_cast<std::uint8_t>(low | high << 4); }

}  // namespace

void gguf_pack(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows, std::int64_t k,
               std::uint8_t* blocks) {
  for (std::int64_t group = 0; group < rows * k / kBlock; ++group) {
    std::uint8_t* block = blocks + group / 4 * kGgufBlockBytes;
    const std::uint8_t* from = codes + group * 8;
    block[group % 4] = scales[group] & 0x7F;
    for (std::int64_t j = 0; j < 8; ++j) block[4 + group % 4 * 8 + j] = pair(code_at(from, j), code_at(from, j + 8));
  }
}

void gguf_unpack(const std::uint8_t* blocks, std::int64_t rows, std::int64_t k, std::uint8_t* codes,
                 std::uint8_t* scales) {
  for (std::int64_t group = 0; group < rows * k / kBlock; ++group) {
    const std::uint8_t* block = blocks + group / 4 * kGgufBlockBytes;
    const std::uint8_t* from = block + 4 + group % 4 * 8;
    scales[group] = block[group % 4];
    for (std::int64_t j = 0; j < 4; ++j) {
      codes[group * 8 + j] = pair(from[2 * j] & 0xFU, from[2 * j + 1] & 0xFU);
      codes[group * 8 + 4 + j] = pair(unsigned{from[2 * j]} >> 4, unsigned{from[2 * j + 1]} >> 4);
    }
  }
}

void marlin_codes(const std::uint8_t* codes, std::int64_t n, std::int64_t k, std::uint32_t* words) {
  // A word holds the k of two 8 x 4 operand fragments of rows n and n + 8, interleaved for its decoder.
  constexpr std::array<std::int64_t, 4> kColumn = {0, 1, 8, 9};
  constexpr std::array<unsigned, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};
  for (std::int64_t kt = 0; kt < k / 16; ++kt) {
    for (std::int64_t nt = 0; nt < n / 64; ++nt) {
      for (std::int64_t lane = 0; lane < 32; ++lane) {
        for (std::int64_t w = 0; w < 4; ++w) {
          const std::int64_t row = nt * 64 + w * 16 + lane / 4;
          std::uint32_t word = 0;
          for (unsigned i = 0; i < 8; ++i) {
            const unsigned from = kOrder[i];
            const std::int64_t column = kt * 16 + lane % 4 * 2 + kColumn[from % 4];
            word |= code_at(codes + (row + (from / 4) * 8) * (k / 2), column) << (4 * i);
          }
          words[(kt * (n / 64) + nt) * 128 + lane * 4 + w] = word;
        }
      }
    }
  }
}

void marlin_scale_order(const std::uint8_t* scales, std::int64_t n, std::int64_t blocks, std::uint8_t* out) {
  constexpr std::array<std::int64_t, 4> kSwap = {0, 2, 1, 3};
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t column = 0; column < n; ++column) {
      const std::int64_t gathered = column % 64 / 4 * 4 + kSwap[static_cast<std::size_t>(column % 4)];
      const std::int64_t row = column / 64 * 64 + gathered / 8 + gathered % 8 * 8;
      out[block * n + column] = scales[row * blocks + block];
    }
  }
}

std::uint8_t marlin_scale(std::uint8_t scale, float factor) {
  const float scaled = f16_to_f32(f32_to_f16(ue4m3_decode(scale) * factor)) * 128.0F;
  if (scaled < 2.0F) return 0;
  return static_cast<std::uint8_t>((unsigned{f32_to_f16(scaled)} << 1 & 0xFFFFU) >> 8);
}

Result<float> mxfp4_to_nvfp4(const std::uint8_t* mx_codes, const std::uint8_t* mx_scales, std::int64_t rows,
                             std::int64_t k, std::uint8_t* codes, std::uint8_t* scales) {
  constexpr std::int64_t kMxBlock = 32;
  constexpr int kBias = 127;
  const std::int64_t blocks = rows * k / kMxBlock;
  const std::uint8_t* end = mx_scales + blocks;
  if (const std::uint8_t* nan = std::find(mx_scales, end, std::uint8_t{255}); nan != end) {
    Error error;
    error.kind = ErrorKind::input;
    error.id = "TE0405";
    error.what = "NaN among the MXFP4 block scales";
    error.where = fmt::format("row {}, column {}", (nan - mx_scales) / (k / kMxBlock),
                              (nan - mx_scales) % (k / kMxBlock) * kMxBlock);
    error.need = "E8M0 bytes below 255";
    error.have = "255";
    return error;
  }
  const int largest = blocks == 0 ? 0 : *std::max_element(mx_scales, end);
  const int exponent = largest == 0 ? 0 : std::max(largest - kBias - 8, -126);
  EncodeParams params;
  params.profile = tetrad_profile(QuantMethod::rtn);
  params.global = std::ldexp(1.0F, exponent);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::uint8_t* from = mx_codes + block * 16;
    const int delta = mx_scales[block] - kBias - exponent;
    if (mx_scales[block] != 0 && delta >= -9) {
      std::memcpy(codes + block * 16, from, 16);
      scales[2 * block] = scales[2 * block + 1] = ue4m3_encode(std::ldexp(1.0F, delta));
      continue;
    }
    std::array<float, kMxBlock> values;
    for (std::int64_t i = 0; i < kMxBlock; ++i) {
      values[static_cast<std::size_t>(i)] =
          std::ldexp(e2m1_decode(static_cast<std::uint8_t>(code_at(from, i))), mx_scales[block] - kBias);
    }
    encode_row(params, values.data(), kMxBlock, codes + block * 16, scales + 2 * block, nullptr);
  }
  return params.global;
}

}  // namespace tetrad::format
