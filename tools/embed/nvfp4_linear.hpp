// Linear layers of a quantised checkpoint, each through the kernel that the planner chooses on this host.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bert.hpp"
#include "dense.hpp"
#include "tetrad/judge.hpp"
#include "tetrad/kernels.hpp"

namespace tetrad::embed {

// What happened to one layer, in the order of the forward pass.
struct LayerRecord {
  std::string name;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::string kernel;
  double seconds = 0.0;               // of the latest launch
  JudgeReport report;                 // of the pass that was compared
  double relative_to_original = 0.0;  // ||y - y of the unquantised layer for the same input|| / ||the latter||
};

class Nvfp4Linear : public LinearLayers {
 public:
  // Plans and binds every layer for `rows` rows. W4A16 checkpoints allow no rounding of the activations. For W4A4 ones
  // the emulated W4A4 row is forced, so that the error of 4-bit activations shows. The checkpoint must outlive the
  // result. Errors: (input) a layer that is not NVFP4 or has another shape; those of the planner and of bind.
  static Result<Nvfp4Linear> open(const Checkpoint& checkpoint, const std::vector<Bert::Layer>& layers,
                                  std::int64_t rows, int threads);

  // Judges every later result, and compares it with `original`, until set to null.
  void compare_with(DenseLinear* original) { original_ = original; }
  Status apply(std::string_view layer, std::int64_t rows, std::span<const float> x, std::span<float> y) override;

  Scheme scheme() const { return scheme_; }
  std::vector<LayerRecord> records() const;

 private:
  struct Layer {
    QuantizedTensor weight;
    std::vector<float> bias;
    const KernelDescriptor* kernel = nullptr;
    std::unique_ptr<BoundKernel> bound;
    LayerRecord record;
  };
  std::vector<Layer> layers_;
  std::map<std::string, std::size_t, std::less<>> index_;
  Scheme scheme_ = Scheme::w4a16;
  DenseLinear* original_ = nullptr;
  int threads_ = 0;
};

}  // namespace tetrad::embed
