// Row cpu_w4a4_emulated: activations rounded to NVFP4 with the static input scale of the checkpoint, as a W4A4 unit
// sees them, then the exact product of the 4-bit operands with fp32 sums. It shows the error of W4A4, not its speed.
#include <algorithm>
#include <memory>
#include <string>

#include "kernels/cpu/rows.hpp"
#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/w4a16.hpp"
#include "tetrad/nvfp4.hpp"

namespace tetrad::kernels {
namespace {

class EmulatedRow final : public CpuRow {
 public:
  using CpuRow::CpuRow;

 protected:
  void pack(std::size_t group, const float* x, std::int64_t count, std::int64_t rows,
            std::byte* packed) const override {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count / 2));
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(count / kBlock));
    quantize_activations({x, DType::f32, 1, count, count}, input_scale(group), codes.data(), scales.data());
    std::vector<float> rounded(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < rounded.size(); ++i)
      rounded[i] = kCodeTable[codes[i / 2] >> (i % 2 * 4) & 15U] * ue4m3_decode(scales[i / kBlock]);
    w4a16_pack(rounded.data(), count, rows, packed);
  }
  std::size_t packed_bytes(std::int64_t count, std::int64_t rows) const override {
    return w4a16_packed_bytes(count, rows);
  }
  std::size_t scratch_bytes() const override { return w4a16_scratch_bytes(); }
  std::int64_t chunk() const override { return kW4A16Chunk; }
  void multiply(const Panel& panel) const override { w4a16_multiply(panel); }
  double alpha(std::size_t group) const override { return CpuRow::alpha(group) * input_scale(group); }

 private:
  double input_scale(std::size_t group) const { return weights()[group].input_global->decode(); }
};

}  // namespace

Result<std::unique_ptr<BoundKernel>> bind_cpu_w4a4_emulated(std::span<const QuantizedTensor> weights) {
  if (Status status = check_weights(weights); !status) return status.error();
  for (std::size_t g = 0; g < weights.size(); ++g)
    if (!weights[g].input_global)
      return Error{ErrorKind::input,
                   "TE0603",
                   "the weights carry no static input scale",
                   "group " + std::to_string(g),
                   "an input scale (a W4A4 checkpoint)",
                   "none",
                   {},
                   "quantise with --scheme w4a4 --input-amax FILE"};
  return std::unique_ptr<BoundKernel>(std::make_unique<EmulatedRow>(weights));
}

}  // namespace tetrad::kernels
