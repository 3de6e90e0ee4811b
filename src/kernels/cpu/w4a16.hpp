// Exact W4A16 product with fp32 sums, shared by the rows whose activations are fp32 in the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/row.hpp"

namespace tetrad::kernels {

// Packed row: fp32, each step of 64 in kStepOrder, zero beyond k.
std::size_t w4a16_packed_bytes(std::int64_t k);
void w4a16_pack(const float* row, std::int64_t k, std::byte* packed);
std::size_t w4a16_scratch_bytes();
// Runs on the best instruction set of this CPU.
void w4a16_multiply(const Panel& panel);

}  // namespace tetrad::kernels
