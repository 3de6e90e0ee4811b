// Weights as a kernel reads them: bytes with a versioned layout, each layout with an exact inverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tetrad/error.hpp"
#include "tetrad/tensor.hpp"

namespace tetrad {

// One way to arrange the codes and block scales of [rows, k] in one buffer. A layout is a row of layouts(); its formula
// never changes, a new one gets a new number after the slash.
struct Layout {
  std::string_view id;       // "linear/1"
  std::string_view formula;  // byte and nibble of code (r, c) and byte of scale (r, b), for people
  std::int64_t rows_multiple = 1;
  std::int64_t k_multiple = kBlock;
  // Bytes of the buffer for [rows, k].
  std::size_t (*bytes)(std::int64_t rows, std::int64_t k);
  // Fills the buffer from host memory, padding included.
  void (*pack)(const QuantizedTensor& from, std::uint8_t* to);
  // Writes codes [rows, k/2] and linear scales [rows, k/16] without gaps.
  void (*unpack)(const std::uint8_t* from, std::int64_t rows, std::int64_t k, std::uint8_t* codes,
                 std::uint8_t* scales);
};

// Every layout of this version.
std::span<const Layout> layouts();
// nullptr if there is none of this name.
const Layout* find_layout(std::string_view id);

// A weight in one layout. The buffer starts on a 64-byte boundary; copies share it, so it is read-only.
struct PackedWeight {
  std::string layout;
  std::int64_t rows = 0;
  std::int64_t k = 0;
  GlobalScale global;
  std::optional<GlobalScale> input_global;
  std::shared_ptr<const std::uint8_t> data;
  std::size_t bytes = 0;
};

// Host tensor -> packed. Errors: unknown layout (usage), TE0251; rows or k that the layout does not take, a tensor that
// is not in host memory or has a size or stride too small (input), TE0252.
Result<PackedWeight> pack(const QuantizedTensor& tensor, std::string_view layout);

// packed -> codes [rows, k/2] and linear scales [rows, k/16], bit for bit what was packed. Errors (input): unknown
// layout, a buffer of another size.
Status unpack(const PackedWeight& packed, std::uint8_t* codes, std::uint8_t* scales);

// The packed weight as a view, for layouts that a QuantizedTensor can describe ("linear/1"). Lives as long as
// `packed`'s buffer. Error (usage): another layout.
Result<QuantizedTensor> view(const PackedWeight& packed);

}  // namespace tetrad
