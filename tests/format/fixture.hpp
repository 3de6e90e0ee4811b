// Fixtures of number conversions, one fact a line (hexadecimal):
//   value KIND CODE F32BITS        decoding of one code
//   point KIND F32BITS CODE        encoding of one fp32 value
//   sweep KIND f16|bf16 0 HASH     encoding of all 65536 patterns but NaN
//   sweep KIND f32 PART HASH       of i << 8 | (i * 73 & 255) for i in [PART << 20, (PART + 1) << 20), NaN left out
// HASH = sum over i of (code + 1) * (((i + 1) * 0x9E3779B97F4A7C15) | 1) mod 2^64.
// KIND is e2m1, e4m3 (values only), e4m3_sat or e4m3_nosat.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

struct FixtureLine {
  std::string what;
  std::string kind;
  std::string text;  // of a sweep: f16, bf16, f32
  std::uint32_t a = 0;
  std::uint64_t b = 0;
};

inline std::vector<FixtureLine> read_fixture(const std::string& file) {
  std::ifstream in(std::string(TETRAD_TEST_DATA) + "/format/" + file);
  std::vector<FixtureLine> lines;
  for (std::string row; std::getline(in, row);) {
    if (row.empty() || row[0] == '#') continue;
    std::istringstream words(row);
    FixtureLine line;
    words >> line.what >> line.kind;
    if (line.what == "sweep") {
      words >> line.text >> std::dec >> line.a >> std::hex >> line.b;
    } else {
      words >> std::hex >> line.a >> line.b;
    }
    lines.push_back(line);
  }
  return lines;
}

inline std::uint64_t fixture_mix(std::uint64_t index) { return ((index + 1) * 0x9E3779B97F4A7C15ULL) | 1; }
