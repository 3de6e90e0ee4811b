// One declaration per layout file (internal).
#pragma once

#include "tetrad/weight.hpp"

namespace tetrad::weight {

extern const Layout kLinear1;
extern const Layout kMma16;
// Start of the block scales in a linear/1 buffer.
std::size_t linear1_scales_at(std::int64_t rows, std::int64_t k);

// Byte of the block scale (row, block), in whichever order the tensor stores its scales.
std::uint8_t scale_at(const QuantizedTensor& tensor, std::int64_t row, std::int64_t block);

}  // namespace tetrad::weight
