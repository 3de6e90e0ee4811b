// Linear layers with unquantised weights, summed in double.
#pragma once

#include <map>
#include <string>

#include "bert.hpp"

namespace tetrad::embed {

class DenseLinear : public LinearLayers {
 public:
  // Reads weights and biases of the named layers. Errors (input): a missing tensor, a wrong shape.
  static Result<DenseLinear> open(const Checkpoint& checkpoint, const std::vector<Bert::Layer>& layers);

  Status apply(std::string_view layer, std::int64_t rows, std::span<const float> x, std::span<float> y) override;
  // Empty if the layer is unknown.
  std::span<const float> bias(std::string_view layer) const;
  // Largest absolute input that each layer has seen so far.
  const std::map<std::string, float, std::less<>>& input_amax() const { return input_amax_; }

 private:
  struct Weights {
    std::int64_t out = 0;
    std::int64_t in = 0;
    std::vector<float> transposed;  // [in, out]
    std::vector<float> bias;        // [out]
  };
  std::map<std::string, Weights, std::less<>> weights_;
  std::map<std::string, float, std::less<>> input_amax_;
};

// Biases of the named layers, from a checkpoint whose weights may be quantised.
Result<std::map<std::string, std::vector<float>, std::less<>>> read_biases(const Checkpoint& checkpoint,
                                                                           const std::vector<Bert::Layer>& layers);

}  // namespace tetrad::embed
