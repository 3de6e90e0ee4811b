#include <string>

#include "kernels/gpu/row.hpp"
#include "tetrad/kernels.hpp"

namespace tetrad {
namespace kernels {

DeviceBind device_bind_of([[maybe_unused]] std::string_view row) {
#if defined(TETRAD_HAS_CUDA)
  if (row == "sm80_w4a16_gemv") return bind_sm80_w4a16_gemv;
#endif
  return nullptr;
}

namespace {

Error usage(std::string what, std::string need, std::string have) {
  return Error{ErrorKind::usage, "TE0602", std::move(what), "", std::move(need), std::move(have), {}, ""};
}

bool half(DType type) { return type == DType::bf16 || type == DType::f16; }

std::string shape(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

}  // namespace

Status check_device_args(const gpu::Args& args, std::int64_t n, std::int64_t k, std::int64_t m_max) {
  if (!half(args.x.type)) return usage("activation type", "bf16 or f16", std::string(name(args.x.type)));
  if (!half(args.y.type) && args.y.type != DType::f32)
    return usage("output type", "bf16, f16 or f32", std::string(name(args.y.type)));
  if (args.x.rows < 0 || args.x.cols != k)
    return usage("activations do not fit the weights", "k " + std::to_string(k), shape(args.x.rows, args.x.cols));
  if (m_max > 0 && args.x.rows > m_max)
    return usage("too many rows for this kernel", "at most " + std::to_string(m_max), std::to_string(args.x.rows));
  if (args.y.rows != args.x.rows || args.y.cols != n)
    return usage("the output does not fit", shape(args.x.rows, n), shape(args.y.rows, args.y.cols));
  if (args.x.stride < k || args.y.stride < n)
    return usage("a row stride is shorter than its row", std::to_string(k) + " and " + std::to_string(n),
                 std::to_string(args.x.stride) + " and " + std::to_string(args.y.stride));
  if (args.x.rows > 0 && (args.x.data == nullptr || args.y.data == nullptr))
    return usage("an operand has no data", "x and y", "null");
  return ok();
}

}  // namespace kernels

Result<std::unique_ptr<gpu::Kernel>> gpu::bind(std::string_view name, const Weight& weight) {
  if (const KernelDescriptor* row = find_kernel(name); row == nullptr)
    return Error{ErrorKind::usage,  "TE0604", "no such kernel", "", "a name of the table",
                 std::string(name), {},       "tetrad kernels"};
  const kernels::DeviceBind make = kernels::device_bind_of(name);
  if (make == nullptr)
    return Error{ErrorKind::unavailable,
                 "TE1004",
                 "this build has no GPU code for the kernel",
                 "",
                 "a build with preset cuda and a kernel that is not only declared",
                 std::string(name),
                 {},
                 ""};
  return make(weight);
}

}  // namespace tetrad
