#include "model_tensor.hpp"

#include <fmt/format.h>

#include <utility>

namespace tetrad::embed {

Result<ConstMatrix> model_tensor(const Checkpoint& checkpoint, const StoredTensor* stored, const std::string& name,
                                 std::int64_t rows, std::int64_t cols, std::string hint) {
  if (stored == nullptr) {
    return Error{ErrorKind::input,
                 "TE0652",
                 "the checkpoint lacks a tensor of the model",
                 checkpoint.path(),
                 name,
                 "no such tensor",
                 {},
                 std::move(hint)};
  }
  StoredTensor tensor = *stored;
  if (tensor.shape.size() == 1) tensor.shape.insert(tensor.shape.begin(), 1);
  Result<ConstMatrix> matrix = dense_matrix(tensor);
  if (matrix && (matrix->rows != rows || matrix->cols != cols)) {
    return Error{ErrorKind::input,
                 "TE0652",
                 "a tensor's shape differs from the configuration",
                 name,
                 fmt::format("[{}, {}]", rows, cols),
                 fmt::format("[{}, {}]", matrix->rows, matrix->cols),
                 {},
                 {}};
  }
  return matrix;
}

}  // namespace tetrad::embed
