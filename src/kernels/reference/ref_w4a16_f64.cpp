// Row ref_w4a16_f64 and the products that every row is judged by: exact products, sums in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/int8.hpp"
#include "kernels/cpu/row.hpp"
#include "kernels/cpu/rows.hpp"
#include "tetrad/judge.hpp"
#include "tetrad/nvfp4.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad {
namespace {

// Row of activations as a kernel of this precision sees it, in double. The factor of w4a4's input scale is left out.
void activation_row(const ConstMatrix& x, std::int64_t row, Acc acc, const QuantizedTensor& w, double* out) {
  std::vector<float> line(static_cast<std::size_t>(x.cols));
  kernels::load_row(x, row, line.data());
  if (acc == Acc::w4a16) {
    std::copy(line.begin(), line.end(), out);
  } else if (acc == Acc::w4a8) {
    std::array<std::int8_t, kBlock> q{};
    for (std::int64_t b = 0; b < x.cols; b += kBlock) {
      const float scale = kernels::quantize_int8_block(line.data() + b, q.data());
      for (std::size_t i = 0; i < q.size(); ++i) out[b + static_cast<std::int64_t>(i)] = double{scale} * q[i];
    }
  } else {
    std::vector<std::uint8_t> codes(line.size() / 2);
    std::vector<std::uint8_t> scales(line.size() / kBlock);
    quantize_activations({line.data(), DType::f32, 1, x.cols, x.cols}, w.input_global->decode(), codes.data(),
                         scales.data());
    for (std::size_t i = 0; i < line.size(); ++i) {
      const auto code = static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15U);
      out[i] = double{e2m1_decode(code)} * double{ue4m3_decode(scales[i / kBlock])};
    }
  }
}

void weight_row(const QuantizedTensor& w, std::int64_t row, double* out) {
  const std::uint8_t* codes = w.codes + row * w.code_stride;
  const std::uint8_t* scales = w.scales + row * w.scale_stride;
  for (std::int64_t b = 0; b < w.k / kBlock; ++b) {
    const double scale = ue4m3_decode(scales[b]);
    for (std::int64_t i = b * kBlock; i < (b + 1) * kBlock; ++i)
      out[i] = scale * double{e2m1_decode(static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15))};
  }
}

struct Sum {
  double value = 0.0;
  double magnitude = 0.0;
};

// Eight partial sums each, which compilers turn into vectors.
Sum dot(const double* x, const double* w, std::int64_t k) {
  std::array<double, 8> value{};
  std::array<double, 8> magnitude{};
  for (std::int64_t i = 0; i < k; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const double product = x[i + static_cast<std::int64_t>(lane)] * w[i + static_cast<std::int64_t>(lane)];
      value[lane] += product;
      magnitude[lane] += std::fabs(product);
    }
  Sum sum;
  for (std::size_t lane = 0; lane < 8; ++lane) {
    sum.value += value[lane];
    sum.magnitude += magnitude[lane];
  }
  return sum;
}

}  // namespace

Result<Reference> exact_product(std::span<const QuantizedTensor> weights, const ConstMatrix& x, Acc acc,
                                const float* bias, std::span<const std::int64_t> group_offsets, int threads) {
  if (Status status = kernels::check_weights(weights); !status) return status.error();
  const std::int64_t n = weights.front().rows;
  const std::int64_t k = weights.front().k;
  Reference result{x.rows, n, {}, {}};
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(x.rows, 0) * n);
  result.value.resize(size);
  result.magnitude.resize(size);
  // The checks of a launch that writes to the values.
  const MatmulArgs args{x, {result.value.data(), DType::f32, x.rows, n, n}, bias, group_offsets, threads};
  if (Status status = kernels::check_args(weights, args); !status) return status.error();
  for (const QuantizedTensor& w : weights)
    if (acc == Acc::w4a4 && !w.input_global)
      return Error{ErrorKind::input,
                   "TE0603",
                   "the weights carry no static input scale",
                   "",
                   "an input scale (a W4A4 checkpoint)",
                   "none",
                   {},
                   "quantise with --scheme w4a4 --input-amax FILE"};

  for (std::size_t g = 0; g < weights.size(); ++g) {
    const QuantizedTensor& w = weights[g];
    const std::int64_t begin = group_offsets.empty() ? 0 : group_offsets[g];
    const std::int64_t rows = (group_offsets.empty() ? x.rows : group_offsets[g + 1]) - begin;
    std::vector<double> activations(static_cast<std::size_t>(rows * k));
    parallel_for(rows, 1, threads, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) activation_row(x, begin + i, acc, w, activations.data() + i * k);
    });
    const double alpha = w.global.decode() * (acc == Acc::w4a4 ? w.input_global->decode() : 1.0);
    parallel_for(rows == 0 ? 0 : n, 4, threads, [&](std::int64_t first, std::int64_t last, int) {
      std::vector<double> line(static_cast<std::size_t>(k));
      for (std::int64_t j = first; j < last; ++j) {
        weight_row(w, j, line.data());
        for (std::int64_t i = 0; i < rows; ++i) {
          const Sum sum = dot(activations.data() + i * k, line.data(), k);
          const auto at = static_cast<std::size_t>((begin + i) * n + j);
          const double shift = bias == nullptr ? 0.0 : double{bias[j]};
          result.value[at] = alpha * sum.value + shift;
          result.magnitude[at] = std::fabs(alpha) * sum.magnitude + std::fabs(shift);
        }
      }
    });
  }
  return result;
}

namespace kernels {
namespace {

class ReferenceRow final : public BoundKernel {
 public:
  explicit ReferenceRow(std::span<const QuantizedTensor> weights) : weights_(weights.begin(), weights.end()) {}

  Status launch(const MatmulArgs& args) override {
    if (Status status = check_args(weights_, args); !status) return status;
    auto product = exact_product(weights_, args.x, Acc::w4a16, args.bias, args.group_offsets, args.threads);
    if (!product) return product.error();
    for (std::int64_t i = 0; i < args.y.rows; ++i)
      for (std::int64_t j = 0; j < args.y.cols; ++j)
        store(args.y, i, j, product->value[static_cast<std::size_t>(i * args.y.cols + j)]);
    return ok();
  }

 private:
  std::vector<QuantizedTensor> weights_;
};

}  // namespace

Result<std::unique_ptr<BoundKernel>> bind_ref_w4a16_f64(std::span<const QuantizedTensor> weights) {
  if (Status status = check_weights(weights); !status) return status.error();
  return std::unique_ptr<BoundKernel>(std::make_unique<ReferenceRow>(weights));
}

}  // namespace kernels
}  // namespace tetrad
