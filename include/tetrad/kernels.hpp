// The table of our kernels, and how one is bound and launched.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/candidate.hpp"
#include "tetrad/error.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

// Operands of one launch. y[m,n] = alpha * sum_k x[m,k] * w[n,k] (+ bias[n]).
struct MatmulArgs {
  ConstMatrix x;                // [m, k] f32, bf16 or f16
  Matrix y;                     // [m, n] f32, bf16 or f16
  const float* bias = nullptr;  // [n], added after alpha, before rounding to the output type
  // Grouped: rows of group g are [offsets[g], offsets[g+1]) of x and y; size groups + 1. Empty for dense.
  std::span<const std::int64_t> group_offsets;
  int threads = 0;  // 0 = all
};

// A kernel bound to one set of weights. Made once; launch only computes. Not for use from two threads at once.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  // Errors (usage): shapes that do not fit the weights, unsupported types.
  virtual Status launch(const MatmulArgs& args) = 0;
};

// `weights`: one tensor per group, all with the same shape; views that must outlive the result.
using BindFunction = Result<std::unique_ptr<BoundKernel>> (*)(std::span<const QuantizedTensor> weights);

struct KernelDescriptor {
  Candidate candidate;
  BindFunction bind = nullptr;  // null: this build holds no code for it
  std::string digest;           // of its machine code; empty if not built
};

// THE list, best-known order, the reference last. Tests, benchmarks, docs and `tetrad kernels` walk it.
std::span<const KernelDescriptor> kernel_table();
// The candidates of the table, in its order.
std::span<const Candidate> kernel_candidates();
// Null if there is none of that name.
const KernelDescriptor* find_kernel(std::string_view name);

// Parts of a kernel name, by the grammar <unit>_<acc>_<technique>[_<tile>].
struct KernelName {
  std::string unit;  // "cpu", "sm80", "sm90", "sm120", "vendor", "ref"
  std::string acc;   // "w4a16", "w4a8", "w4a4"
  std::string technique;
  std::string tile;  // "128x128x128" or empty
};
Result<KernelName> parse_kernel_name(std::string_view name);

}  // namespace tetrad
