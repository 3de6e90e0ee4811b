// Running on a GPU: device memory, packed weights there, and rows of the table bound to them. Free of CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tetrad/error.hpp"
#include "tetrad/target.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"
#include "tetrad/weight.hpp"

namespace tetrad::gpu {

// GPUs that the driver shows. Error (unavailable) TE1001: a build without GPU code, no driver, no GPU.
Result<int> device_count();

struct DeviceInfo {
  std::string name;
  ComputeCapability cc;
  int sms = 0;
  std::int64_t smem_per_block_optin = 0;
  std::int64_t l2_bytes = 0;
  int driver = 0;   // CUDA version of the driver, 13000 = 13.0
  int runtime = 0;  // CUDA version this build was made with
};
// The current device. Errors: TE1001, TE1002.
Result<DeviceInfo> current_device();

// A stream of the driver, as cudaStream_t; null is the default stream.
using StreamHandle = void*;

// Device memory, freed with its last copy; at least 256-byte aligned.
struct Memory {
  std::shared_ptr<std::uint8_t> data;
  std::size_t bytes = 0;
};
// Errors: TE1001; TE1002 with need and have where the device's memory does not suffice.
Result<Memory> allocate(std::size_t bytes);
// Synchronous copies and fill. Preconditions: the ranges lie within their buffers.
Status copy_to_device(void* to, const void* from, std::size_t bytes);
Status copy_to_host(void* to, const void* from, std::size_t bytes);
Status fill(void* to, std::uint8_t value, std::size_t bytes);
// Waits for all work; reports what earlier launches did wrong (TE1002).
Status synchronize();

// A packed weight in device memory. `nan_rows` is null, or one byte per row: not 0 where a block scale is NaN.
struct Weight {
  std::string layout;
  std::int64_t rows = 0;
  std::int64_t k = 0;
  GlobalScale global;
  Memory data;
  Memory nan_rows;
};
// Copies a packed weight to the current device. Errors: TE1001, TE1002, TE0251 unknown layout.
Result<Weight> upload(const PackedWeight& packed);

// Operands of one launch, all in device memory: y[m,n] = alpha * sum_k x[m,k] * w[n,k] (+ bias[n]).
struct Args {
  ConstMatrix x;                // [m, k] bf16 or f16
  Matrix y;                     // [m, n] bf16, f16 or f32
  const float* bias = nullptr;  // [n], added after alpha, before rounding to the output type
  void* workspace = nullptr;    // workspace_bytes(m) or more, 16-byte aligned; its content does not matter
  std::size_t workspace_bytes = 0;
  StreamHandle stream = nullptr;
};

// A row bound to one weight on one device. launch only enqueues: no allocation, no synchronisation, so that a stream
// can be captured into a graph. Not for use on two streams at once.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes(std::int64_t m) const = 0;
  // Errors: TE0602 operands that do not fit (usage), TE1003 workspace too small (usage), TE1002.
  virtual Status launch(const Args& args) = 0;
};

// Row `name` of the table for this weight, which must outlive the result. Errors: TE0604 no such row, TE1004 the row
// has no GPU code in this build, TE0601 the weight has another layout or shape, TE1001, TE1002.
Result<std::unique_ptr<Kernel>> bind(std::string_view name, const Weight& weight);

}  // namespace tetrad::gpu
