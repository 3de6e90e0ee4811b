// The bind functions of the rows that the table names.
#pragma once

#include <memory>
#include <span>

#include "tetrad/kernels.hpp"

namespace tetrad::kernels {

Result<std::unique_ptr<BoundKernel>> bind_cpu_w4a16_f32(std::span<const QuantizedTensor> weights);
Result<std::unique_ptr<BoundKernel>> bind_cpu_w4a8_int8(std::span<const QuantizedTensor> weights);
Result<std::unique_ptr<BoundKernel>> bind_cpu_w4a4_emulated(std::span<const QuantizedTensor> weights);
Result<std::unique_ptr<BoundKernel>> bind_ref_w4a16_f64(std::span<const QuantizedTensor> weights);

}  // namespace tetrad::kernels
