#include "dense.hpp"

#include <algorithm>
#include <cmath>

#include "model_tensor.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad::embed {
namespace {

// Outputs that one inner loop works on: the sums of a row stay in the first cache.
constexpr std::int64_t kOutBlock = 128;

Result<ConstMatrix> tensor_of(const Checkpoint& checkpoint, const std::string& name, std::int64_t rows,
                              std::int64_t cols) {
  return model_tensor(checkpoint, checkpoint.find(name), name, rows, cols);
}

Result<std::vector<float>> read_bias(const Checkpoint& checkpoint, const Bert::Layer& layer) {
  const Result<ConstMatrix> bias = tensor_of(checkpoint, layer.name + ".bias", 1, layer.out);
  if (!bias) return bias.error();
  std::vector<float> values(static_cast<std::size_t>(layer.out));
  for (std::int64_t i = 0; i < layer.out; ++i) values[static_cast<std::size_t>(i)] = element(*bias, 0, i);
  return values;
}

}  // namespace

Result<DenseLinear> DenseLinear::open(const Checkpoint& checkpoint, const std::vector<Bert::Layer>& layers) {
  DenseLinear result;
  for (const Bert::Layer& layer : layers) {
    const Result<ConstMatrix> weight = tensor_of(checkpoint, layer.name + ".weight", layer.out, layer.in);
    if (!weight) return weight.error();
    Result<std::vector<float>> bias = read_bias(checkpoint, layer);
    if (!bias) return bias.error();
    Weights loaded{layer.out, layer.in, std::vector<float>(static_cast<std::size_t>(layer.in * layer.out)),
                   std::move(*bias)};
    for (std::int64_t o = 0; o < layer.out; ++o) {
      for (std::int64_t i = 0; i < layer.in; ++i) {
        loaded.transposed[static_cast<std::size_t>(i * layer.out + o)] = element(*weight, o, i);
      }
    }
    result.weights_.emplace(layer.name, std::move(loaded));
  }
  return result;
}

Status DenseLinear::apply(std::string_view layer, std::int64_t rows, std::span<const float> x, std::span<float> y) {
  const auto found = weights_.find(layer);
  if (found == weights_.end()) {
    return Error{
        ErrorKind::internal, "TE0654", "the forward pass names an unknown layer", std::string(layer), "", "", {}, ""};
  }
  const Weights& w = found->second;
  float& amax = input_amax_[found->first];
  for (const float value : x) amax = std::max(amax, std::abs(value));
  const std::int64_t blocks = (w.out + kOutBlock - 1) / kOutBlock;
  parallel_for(rows * blocks, 4, 0, [&](std::int64_t first, std::int64_t last, int) {
    double sum[kOutBlock];
    for (std::int64_t job = first; job < last; ++job) {
      const std::int64_t row = job / blocks;
      const std::int64_t begin = job % blocks * kOutBlock;
      const std::int64_t count = std::min(kOutBlock, w.out - begin);
      for (std::int64_t o = 0; o < count; ++o) sum[o] = w.bias[static_cast<std::size_t>(begin + o)];
      for (std::int64_t i = 0; i < w.in; ++i) {
        const double value = x[static_cast<std::size_t>(row * w.in + i)];
        const float* column = w.transposed.data() + i * w.out + begin;
        for (std::int64_t o = 0; o < count; ++o) sum[o] += value * column[o];
      }
      for (std::int64_t o = 0; o < count; ++o) {
        y[static_cast<std::size_t>(row * w.out + begin + o)] = static_cast<float>(sum[o]);
      }
    }
  });
  return ok();
}

std::span<const float> DenseLinear::bias(std::string_view layer) const {
  const auto found = weights_.find(layer);
  return found == weights_.end() ? std::span<const float>{} : std::span<const float>(found->second.bias);
}

Result<std::map<std::string, std::vector<float>, std::less<>>> read_biases(const Checkpoint& checkpoint,
                                                                           const std::vector<Bert::Layer>& layers) {
  std::map<std::string, std::vector<float>, std::less<>> result;
  for (const Bert::Layer& layer : layers) {
    Result<std::vector<float>> bias = read_bias(checkpoint, layer);
    if (!bias) return bias.error();
    result.emplace(layer.name, std::move(*bias));
  }
  return result;
}

}  // namespace tetrad::embed
