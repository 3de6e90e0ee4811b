// Results against the exact product and against unquantised weights.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "measure.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad::measure {
namespace {

// Rows of x that one inner loop works on: their sums stay in registers.
constexpr std::int64_t kRowBlock = 8;

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

// The sampled rows of a matrix, as fp32 (exact).
Dense gather(const ConstMatrix& matrix, std::span<const std::int64_t> rows) {
  Dense part(DType::f32, static_cast<std::int64_t>(rows.size()), matrix.cols);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      part.set(static_cast<std::int64_t>(r), c, element(matrix, rows[r], c));
    }
  }
  return part;
}

}  // namespace

Result<JudgeReport> compare(const Candidate& kernel, const ConstMatrix& x, const QuantizedTensor& weight,
                            const float* bias, const ConstMatrix& y, const Sample& sample, int threads) {
  const Dense x_part = gather(x, sample.rows);
  const Weights weight_part = Weights::copy_rows(weight, sample.cols);
  Dense y_part(y.type, static_cast<std::int64_t>(sample.rows.size()), static_cast<std::int64_t>(sample.cols.size()));
  std::vector<float> bias_part;
  for (std::size_t c = 0; c < sample.cols.size(); ++c) {
    if (bias != nullptr) bias_part.push_back(bias[sample.cols[c]]);
    for (std::size_t r = 0; r < sample.rows.size(); ++r) {
      y_part.set(static_cast<std::int64_t>(r), static_cast<std::int64_t>(c),
                 element(y, sample.rows[r], sample.cols[c]));
    }
  }
  const QuantizedTensor part = weight_part.view();
  const Result<Reference> reference =
      exact_product({&part, 1}, x_part.view(), kernel.acc, bias == nullptr ? nullptr : bias_part.data(), {}, threads);
  if (!reference) return reference.error();
  JudgeOptions options;
  options.k = weight.k;
  options.out = y.type;
  return judge(std::as_const(y_part).view(), *reference, options);
}

double relative_to_dense(const ConstMatrix& x, const ConstMatrix& weight, const float* bias, const ConstMatrix& y,
                         const Sample& sample, int threads) {
  const auto rows = static_cast<std::int64_t>(sample.rows.size());
  const std::int64_t k = weight.cols;
  // [block of rows][k][row in block], zero beyond the last row.
  std::vector<double> blocks(size((rows + kRowBlock - 1) / kRowBlock * kRowBlock * k), 0.0);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < k; ++i) {
      blocks[size(r / kRowBlock * kRowBlock * k + i * kRowBlock + r % kRowBlock)] = element(x, sample.rows[size(r)], i);
    }
  }
  std::mutex mutex;
  double error = 0.0;
  double norm = 0.0;
  parallel_for(static_cast<std::int64_t>(sample.cols.size()), 4, threads,
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::vector<double> w(size(k));
                 double my_error = 0.0;
                 double my_norm = 0.0;
                 for (std::int64_t c = begin; c < end; ++c) {
                   const std::int64_t col = sample.cols[size(c)];
                   for (std::int64_t i = 0; i < k; ++i) w[size(i)] = element(weight, col, i);
                   for (std::int64_t first = 0; first < rows; first += kRowBlock) {
                     const double* block = blocks.data() + first * k;
                     double sum[kRowBlock] = {};
                     for (std::int64_t i = 0; i < k; ++i) {
                       for (std::int64_t r = 0; r < kRowBlock; ++r) sum[r] += block[i * kRowBlock + r] * w[size(i)];
                     }
                     for (std::int64_t r = 0; r < std::min(kRowBlock, rows - first); ++r) {
                       const double exact = sum[r] + (bias != nullptr ? bias[col] : 0.0);
                       const double difference = element(y, sample.rows[size(first + r)], col) - exact;
                       my_error += difference * difference;
                       my_norm += exact * exact;
                     }
                   }
                 }
                 const std::lock_guard lock(mutex);
                 error += my_error;
                 norm += my_norm;
               });
  return norm == 0.0 ? 0.0 : std::sqrt(error / norm);
}

Result<Checked> check(const Candidate& kernel, const Operands& operands, const ConstMatrix& y, int threads) {
  Checked result;
  const std::size_t groups = operands.weights.size();
  for (std::size_t g = 0; g < groups; ++g) {
    const std::int64_t begin = operands.offsets.empty() ? 0 : operands.offsets[g];
    const std::int64_t end = operands.offsets.empty() ? operands.x.rows : operands.offsets[g + 1];
    if (begin == end) continue;
    const auto rows_of = [&](ConstMatrix matrix) {
      matrix.data = static_cast<const std::uint8_t*>(matrix.data) + begin * matrix.stride * bits(matrix.type) / 8;
      matrix.rows = end - begin;
      return matrix;
    };
    const QuantizedTensor& weight = operands.weights[g];
    const Sample sample =
        choose_sample(end - begin, weight.rows, weight.k, kReferenceBudget / static_cast<double>(groups), g + 1);
    const Result<JudgeReport> report =
        compare(kernel, rows_of(operands.x), weight, operands.bias, rows_of(y), sample, threads);
    if (!report) return report.error();
    const bool worse =
        result.compared.empty() ||
        (result.report.judgement == Judgement::pass && report->judgement != Judgement::pass) ||
        (result.report.judgement == report->judgement && report->worst_ratio > result.report.worst_ratio);
    if (worse) result.report = *report;
    if (result.compared.empty() || !sample.full()) result.compared = sample.text() + (groups > 1 ? ", per group" : "");
  }
  return result;
}

}  // namespace tetrad::measure
