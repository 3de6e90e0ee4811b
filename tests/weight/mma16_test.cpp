// mma16/1 through the fragment maps of the tensor instructions that read it: a warp gathers its registers from the
// bytes with the loads a kernel would use, and the product of the registers is the product of the tensor.
#include "weight/mma16.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "tetrad/nvfp4.hpp"
#include "tetrad/weight.hpp"

namespace tetrad {
namespace {

struct Packed {
  std::int64_t rows;
  std::int64_t k;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  PackedWeight weight;

  Packed(std::int64_t n, std::int64_t k_) : rows(n), k(k_) {
    std::mt19937 random(static_cast<unsigned>(n * 31 + k));
    codes.resize(static_cast<std::size_t>(n * k / 2));
    scales.resize(static_cast<std::size_t>(n * k / kBlock));
    for (auto& b : codes) b = static_cast<std::uint8_t>(random());
    for (auto& b : scales) b = static_cast<std::uint8_t>(random() % 0x7F);
    QuantizedTensor tensor;
    tensor.rows = n;
    tensor.k = k;
    tensor.codes = codes.data();
    tensor.code_stride = k / 2;
    tensor.scales = scales.data();
    tensor.scale_stride = k / kBlock;
    Result<PackedWeight> packed = pack(tensor, "mma16/1");
    if (packed) weight = *packed;
  }
  int code(std::int64_t r, std::int64_t c) const {
    return r < rows && c < k ? codes[static_cast<std::size_t>(r * k / 2 + c / 2)] >> (c % 2 * 4) & 15 : 0;
  }
  int scale(std::int64_t r, std::int64_t b) const {
    return r < rows && b < k / kBlock ? scales[static_cast<std::size_t>(r * (k / kBlock) + b)] : 0;
  }
  const std::uint8_t* tile(std::int64_t t) const { return weight.data.get() + t * weight::mma16_tile_bytes(k); }
  const std::uint8_t* group_codes(std::int64_t t, std::int64_t group) const { return tile(t) + group * 512; }
  const std::uint8_t* group_scales(std::int64_t t, std::int64_t group) const {
    return tile(t) + weight::mma16_groups(k) * 512 + group * 64;
  }
};

std::uint32_t word(const std::uint8_t* at) {
  std::uint32_t w = 0;
  std::memcpy(&w, at, 4);
  return w;
}

// PTX prmt: byte i of the result is byte selector[i] of (low, high).
std::uint32_t prmt(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  std::uint32_t out = 0;
  for (unsigned i = 0; i < 4; ++i)
    out |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7U)) & 0xFFU) << (8 * i);
  return out;
}

const std::array<std::pair<int, int>, 4> kShapes = {{{16, 64}, {40, 192}, {7, 48}, {129, 80}}};

TEST(Mma16, LaneWordsAreTheRegistersOfM16N8K16) {
  for (const auto& [n, k] : kShapes) {
    const Packed p(n, k);
    ASSERT_EQ(p.weight.bytes, static_cast<std::size_t>((n + 15) / 16 * ((k + 63) / 64) * 576));
    for (std::int64_t tile = 0; tile < (n + 15) / 16; ++tile)
      for (std::int64_t group = 0; group < (k + 63) / 64; ++group)
        for (int lane = 0; lane < 32; ++lane) {
          const int g = lane / 4;
          const int t = lane % 4;
          const std::uint8_t* chunk = p.group_codes(tile, group) + 16 * weight::mma16_place(g, t);
          for (int step = 0; step < 4; ++step) {
            const std::uint32_t w = word(chunk + 4 * step);
            // a[r]: row g + 8 (r & 1), k 2t, 2t + 1 (+ 8 where r >= 2).
            const std::array<int, 4> nibble_of = {0, 2, 1, 3};
            for (int r = 0; r < 4; ++r)
              for (int i = 0; i < 2; ++i) {
                const int have = w >> (16 * i + 4 * nibble_of[static_cast<std::size_t>(r)]) & 15;
                EXPECT_EQ(have, p.code(16 * tile + g + 8 * (r & 1), 64 * group + 16 * step + 2 * t + i + 8 * (r >> 1)));
              }
            const std::uint8_t* pair = p.group_scales(tile, group) + 8 * g + 2 * step;
            EXPECT_EQ(pair[0], p.scale(16 * tile + g, 4 * group + step));
            EXPECT_EQ(pair[1], p.scale(16 * tile + g + 8, 4 * group + step));
          }
        }
  }
}

// The order of k in which an m16n8k64 or an fp8 k32 instruction sees the codes: slot -> element of the group. The
// activations, which such a kernel quantises itself, are written in the same order.
int element_of_slot(int slot) {
  constexpr std::array<int, 4> kStep = {0, 2, 1, 3};
  const int s = slot % 16;
  return 16 * kStep[static_cast<std::size_t>(slot / 16)] + 2 * (s / 4) + (s / 2 & 1) + 8 * (s & 1);
}

TEST(Mma16, SlotsAreAPermutationThatKeepsBlocksWhole) {
  std::array<int, 64> seen{};
  for (int slot = 0; slot < 64; ++slot) {
    ++seen[static_cast<std::size_t>(element_of_slot(slot))];
    EXPECT_EQ(element_of_slot(slot) / 16, element_of_slot(slot / 16 * 16) / 16);
  }
  for (const int count : seen) EXPECT_EQ(count, 1);
}

// mma.sync m16n8k64 kind::mxf4nvf4 (SM120): B is 64 x 8, b[r] nibble i of lane (g, t): column g, slot 8t + i + 32r;
// SFB byte b of column g scales slots 16b to 16b + 15. A tile of 16 rows is two such operands.
TEST(Mma16, GathersAnSm120OperandAndItsScales) {
  for (const auto& [n, k] : kShapes) {
    const Packed p(n, k);
    for (std::int64_t tile = 0; tile < (n + 15) / 16; ++tile)
      for (std::int64_t group = 0; group < (k + 63) / 64; ++group)
        for (int lane = 0; lane < 32; ++lane) {
          const int g = lane / 4;
          const int t = lane % 4;
          // Two 8-byte loads: the steps of this half of the quad, from the two lanes that hold its elements.
          const std::uint8_t* codes = p.group_codes(tile, group);
          const std::uint8_t* first = codes + 16 * weight::mma16_place(g, 2 * (t & 1)) + 8 * (t / 2);
          const std::uint8_t* second = codes + 16 * weight::mma16_place(g, 2 * (t & 1) + 1) + 8 * (t / 2);
          const std::uint8_t* scales = p.group_scales(tile, group) + 8 * g;
          for (int half = 0; half < 2; ++half) {  // rows 0-7 and 8-15 of the tile
            const std::int64_t row = 16 * tile + g + 8 * half;
            const std::uint32_t select = half == 0 ? 0x6420 : 0x7531;
            for (int r = 0; r < 2; ++r) {
              const std::uint32_t b = prmt(word(first + 4 * r), word(second + 4 * r), select);
              for (int i = 0; i < 8; ++i) {
                const int slot = 8 * t + i + 32 * r;
                ASSERT_EQ(b >> (4 * i) & 15, static_cast<unsigned>(p.code(row, 64 * group + element_of_slot(slot))))
                    << "lane " << lane << " register " << r << " nibble " << i;
              }
            }
            const std::uint32_t sf = prmt(word(scales), word(scales + 4), half == 0 ? 0x6240 : 0x7351);
            for (int b = 0; b < 4; ++b)
              ASSERT_EQ(sf >> (8 * b) & 255,
                        static_cast<unsigned>(p.scale(row, 4 * group + element_of_slot(16 * b) / 16)));
          }
        }
  }
}

// Half a warp's 8-byte loads above touch every bank of shared memory once, as do a quarter's 16-byte loads.
TEST(Mma16, SharedMemoryLoadsHaveNoBankConflicts) {
  for (int which = 0; which < 2; ++which)
    for (int half = 0; half < 2; ++half) {
      std::array<int, 32> banks{};
      for (int lane = 16 * half; lane < 16 * half + 16; ++lane) {
        const int t = lane % 4;
        const int byte = 16 * weight::mma16_place(lane / 4, 2 * (t & 1) + which) + 8 * (t / 2);
        for (int w = 0; w < 2; ++w) ++banks[static_cast<std::size_t>((byte / 4 + w) % 32)];
      }
      for (const int count : banks) EXPECT_EQ(count, 1);
    }
  for (int quarter = 0; quarter < 4; ++quarter) {
    std::array<int, 32> banks{};
    for (int lane = 8 * quarter; lane < 8 * quarter + 8; ++lane)
      for (int w = 0; w < 4; ++w)
        ++banks[static_cast<std::size_t>((4 * weight::mma16_place(lane / 4, lane % 4) + w) % 32)];
    for (const int count : banks) EXPECT_EQ(count, 1);
  }
}

TEST(Mma16, PaddingIsZero) {
  const Packed p(7, 48);
  std::size_t codes = 0;
  for (std::size_t i = 0; i < 512; ++i) {
    codes += (p.weight.data.get()[i] & 15) != 0 ? 1 : 0;
    codes += p.weight.data.get()[i] >> 4 != 0 ? 1 : 0;
  }
  std::size_t want = 0;
  for (int r = 0; r < 7; ++r)
    for (int c = 0; c < 48; ++c) want += p.code(r, c) != 0 ? 1 : 0;
  EXPECT_EQ(codes, want);
  for (int r = 7; r < 16; ++r)
    for (int b = 0; b < 4; ++b) EXPECT_EQ(p.weight.data.get()[weight::mma16_scale(r, b, 48)], 0);
}

}  // namespace
}  // namespace tetrad
