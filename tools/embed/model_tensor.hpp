// A tensor of the model as the forward pass expects it.
#pragma once

#include <cstdint>
#include <string>

#include "tetrad/checkpoint.hpp"

namespace tetrad::embed {

// `stored` (null: not found) as a matrix [rows, cols]; a vector counts as one row. `name` and `hint` are for messages.
// Errors (input): no such tensor, another shape, not a float type.
Result<ConstMatrix> model_tensor(const Checkpoint& checkpoint, const StoredTensor* stored, const std::string& name,
                                 std::int64_t rows, std::int64_t cols, std::string hint = {});

}  // namespace tetrad::embed
