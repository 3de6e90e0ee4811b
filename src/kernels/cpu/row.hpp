// What the CPU rows share: checks, groups, packing, threads, the epilogue. A row adds its packing and its inner
// product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tetrad/kernels.hpp"

namespace tetrad::kernels {

// Rows of activations that are packed and multiplied at once.
inline constexpr std::int64_t kMaxRows = 64;
// Rows of weights that one call of multiply() takes: the packed activations, which do not stay in the second-level
// cache, are read once for so many.
inline constexpr std::int64_t kPanel = 48;

// Up to so many rows of activations are packed in one chunk and multiplied one by one while the weights stream.
inline constexpr std::int64_t kVectorRows = 4;

// Work of one call: sums[i * kPanel + j] = sum_k x[i, k] * e2m1(w[n + j, k]) * ue4m3(scale), without global scales.
// Packed activations lie in chunks of `chunk` elements of k, each with all its rows one after the other, so that a
// chunk is read as one stream.
struct Panel {
  const QuantizedTensor* weights = nullptr;
  std::int64_t n = 0;            // first row of the weights
  std::int64_t count = 0;        // rows of the weights, <= kPanel
  std::int64_t m = 0;            // packed rows, <= kMaxRows
  const std::byte* x = nullptr;  // packed, 64-byte aligned
  std::int64_t x_stride = 0;     // bytes between rows of a chunk
  std::int64_t chunk = 0;        // elements of k per chunk; one chunk when m <= kVectorRows
  std::int64_t chunk_bytes = 0;  // bytes between chunks
  float* sums = nullptr;         // [m, kPanel]
  std::byte* scratch = nullptr;  // of this thread, 64-byte aligned
};

// Bytes aligned to a cache line; grows, never shrinks.
class Scratch {
 public:
  std::byte* reserve(std::size_t bytes);

 private:
  std::vector<std::byte> memory_;
};

// Rejects (input) tensors that are not all alike, on the host, with linear scales and k a multiple of 16.
Status check_weights(std::span<const QuantizedTensor> weights);
// Rejects (usage) operands that do not fit the weights.
Status check_args(std::span<const QuantizedTensor> weights, const MatmulArgs& args);
// Row `row` of a matrix as fp32, exact.
void load_row(const ConstMatrix& matrix, std::int64_t row, float* out);
// Writes value, rounded once to fp32 and then to the type of y.
void store(const Matrix& y, std::int64_t row, std::int64_t col, double value);

class CpuRow : public BoundKernel {
 public:
  explicit CpuRow(std::span<const QuantizedTensor> weights);
  Status launch(const MatmulArgs& args) final;

 protected:
  // `count` elements of a row of activations, a multiple of 16 that starts at one, into their packed form when `rows`
  // rows are multiplied at once.
  virtual void pack(std::size_t group, const float* x, std::int64_t count, std::int64_t rows,
                    std::byte* packed) const = 0;
  virtual std::size_t packed_bytes(std::int64_t count, std::int64_t rows) const = 0;
  // Elements of k per chunk of packed activations when there are more than kVectorRows rows.
  virtual std::int64_t chunk() const = 0;
  virtual std::size_t scratch_bytes() const = 0;
  virtual void multiply(const Panel& panel) const = 0;
  // What the sums are multiplied by; the global scale of the weights unless the packing adds a factor.
  virtual double alpha(std::size_t group) const;

  const std::vector<QuantizedTensor>& weights() const { return weights_; }
  std::int64_t k() const { return weights_.front().k; }

 private:
  void run_rows(const MatmulArgs& args, std::size_t group, std::int64_t begin, std::int64_t rows, int threads);

  std::vector<QuantizedTensor> weights_;
  std::vector<std::vector<std::int64_t>> nan_rows_;  // per group: weight rows with a NaN scale; their results are NaN
  Scratch packed_;
  std::vector<Scratch> scratch_;
};

}  // namespace tetrad::kernels
