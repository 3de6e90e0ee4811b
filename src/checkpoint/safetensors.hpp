// The safetensors format (internal): 8 bytes of header length, a JSON header, the tensors' bytes without gaps.
// Rules: huggingface/safetensors, safetensors/src/tensor.rs; the header cap is that reader's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"

namespace tetrad::checkpoint {

inline constexpr std::uint64_t kHeaderCap = 100'000'000;
inline constexpr std::size_t kMaxDims = 8;

// One entry of a header; offsets count from the first byte after the header.
struct HeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderTensor> tensors;  // in file order
  std::map<std::string, std::string> metadata;
};

// Bits of one element, 0 for an unknown word.
int dtype_bits(std::string_view dtype);

// The length word. `file_size` >= 8. Errors: TE0203 (below 2), TE0204 (above the cap), TE0205 (beyond the file).
Result<std::uint64_t> parse_header_length(std::span<const std::uint8_t, 8> bytes, std::uint64_t file_size,
                                          const std::string& file);

// The header's text against the number of data bytes that follow it. Errors: TE0206 to TE0219, each with file, byte or
// tensor, need and have. Tensors come out in file order, so that they can be read one after the other.
Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file);

// A header ready to be written, length word included, padded with blanks to a multiple of 8. Tensors in file order.
std::string header_bytes(const Header& header);

// True for valid UTF-8 (no surrogates, no overlong forms); else `bad` is the first offending byte.
bool valid_utf8(std::string_view text, std::size_t& bad);

}  // namespace tetrad::checkpoint
