// What GPU rows share (internal): checks of operands, CUDA statuses as errors, the bind functions.
#pragma once

#include <memory>
#include <string_view>

#include "tetrad/gpu.hpp"

namespace tetrad::kernels {

using DeviceBind = Result<std::unique_ptr<gpu::Kernel>> (*)(const gpu::Weight& weight);

// Null where this build has no GPU code for the row.
DeviceBind device_bind_of(std::string_view row);

// Shapes, types, strides and null pointers of a launch with a weight of [n, k]: TE0602. `m_max` 0 = no limit.
Status check_device_args(const gpu::Args& args, std::int64_t n, std::int64_t k, std::int64_t m_max);

Result<std::unique_ptr<gpu::Kernel>> bind_sm80_w4a16_gemv(const gpu::Weight& weight);

}  // namespace tetrad::kernels
