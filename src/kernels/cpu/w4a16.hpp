// Exact W4A16 product with fp32 sums, shared by the rows whose activations are fp32 in the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/row.hpp"

namespace tetrad::kernels {

// Elements of k per chunk of packed activations: 16 rows of dequantised weights of a chunk stay in the first-level
// cache.
inline constexpr std::int64_t kW4A16Chunk = 256;

// Packed row of one of `rows`: up to kVectorRows, whole rows as integers where that is exact, else fp32.
std::size_t w4a16_packed_bytes(std::int64_t count, std::int64_t rows);
void w4a16_pack(const float* x, std::int64_t count, std::int64_t rows, std::byte* packed);
std::size_t w4a16_scratch_bytes();
// Runs on the best instruction set of this CPU.
void w4a16_multiply(const Panel& panel);

}  // namespace tetrad::kernels
