#include "tetrad/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tetrad {
namespace {

struct Precision {
  double unit;      // half the distance of neighbours, relative
  double smallest;  // subnormal
  double overflow;  // at and above this a value rounds to Inf
};

Precision precision_of(DType type) {
  if (type == DType::bf16) return {0x1p-8, 0x1p-133, 0x1p128 - 0x1p119};
  if (type == DType::f16) return {0x1p-11, 0x1p-24, 65520.0};
  return {0x1p-24, 0x1p-149, 0x1p128 - 0x1p103};
}

// Rounds to nearest even once: to fp32 with the last bit sticky before the 16-bit rounding.
float round_once(double value, DType type) {
  auto single = static_cast<float>(value);
  if (type == DType::f32 || !std::isfinite(single)) {
    if (type == DType::f32 || !std::isfinite(value)) return single;
    single = std::copysign(std::numeric_limits<float>::max(), single);
  }
  if (double{single} != value) {
    if (std::fabs(double{single}) > std::fabs(value)) single = std::nextafter(single, 0.0F);
    single = std::bit_cast<float>(std::bit_cast<std::uint32_t>(single) | 1U);
  }
  return type == DType::bf16 ? bf16_to_f32(f32_to_bf16(single)) : f16_to_f32(f32_to_f16(single));
}

bool same_bits(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// |error| / bound of one element; above 1 is wrong.
double error_ratio(double y, double ref, double magnitude, const Precision& p, const JudgeOptions& options) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (std::isnan(ref) || std::isnan(y)) return std::isnan(ref) == std::isnan(y) ? 0.0 : kInfinite;
  if (std::isinf(ref)) return y == ref ? 0.0 : kInfinite;
  const double sum = options.c * static_cast<double>(options.k) * 0x1p-24 * magnitude;
  const double bound = sum + p.unit * (std::fabs(ref) + sum) + p.smallest;
  if (std::isinf(y)) return (y > 0) == (ref > 0) && std::fabs(ref) + bound >= p.overflow ? 0.0 : kInfinite;
  return std::fabs(y - ref) / bound;
}

}  // namespace

JudgeReport judge(const ConstMatrix& y, const Reference& reference, const JudgeOptions& options) {
  JudgeReport report;
  if (y.rows != reference.m || y.cols != reference.n) return report;
  const Precision p = precision_of(options.out);
  double error_squared = 0.0;
  double squared = 0.0;
  std::int64_t zeros = 0;
  std::int64_t expected_zeros = 0;
  for (std::int64_t i = 0; i < y.rows; ++i) {
    double row_error = 0.0;
    double row_squared = 0.0;
    for (std::int64_t j = 0; j < y.cols; ++j) {
      const float value = element(y, i, j);
      const auto at = static_cast<std::size_t>(i * y.cols + j);
      const double ref = reference.value[at];
      const float rounded = round_once(ref, options.out);
      double ratio = error_ratio(value, ref, reference.magnitude[at], p, options);
      if (options.exact && !same_bits(value, rounded)) ratio = std::max(ratio, std::numeric_limits<double>::infinity());
      if (ratio > 1.0) ++report.over_bound;
      if (report.first_m < 0 || ratio > report.worst_ratio) {
        report.worst_ratio = ratio;
        report.first_m = i;
        report.first_n = j;
      }
      zeros += value == 0.0F ? 1 : 0;
      expected_zeros += rounded == 0.0F ? 1 : 0;
      if (std::isfinite(value) && std::isfinite(ref)) {
        row_error += (value - ref) * (value - ref);
        row_squared += ref * ref;
      }
    }
    error_squared += row_error;
    squared += row_squared;
    if (row_squared > 0.0) report.worst_row_l2 = std::max(report.worst_row_l2, std::sqrt(row_error / row_squared));
  }
  report.elements = y.rows * y.cols;
  if (squared > 0.0) report.relative_l2 = std::sqrt(error_squared / squared);
  if (report.elements > 0) report.zero_share = static_cast<double>(zeros) / static_cast<double>(report.elements);
  const bool empty = 2 * zeros > report.elements && 10 * expected_zeros < report.elements;
  if (report.over_bound > 0)
    report.judgement = Judgement::fail;
  else
    report.judgement = report.elements == 0 || empty ? Judgement::mistrusted : Judgement::pass;
  return report;
}

std::string JudgeReport::text() const {
  if (elements == 0)
    return judgement == Judgement::fail ? "fail: the shapes differ" : "mistrusted: nothing was compared";
  if (judgement == Judgement::mistrusted)
    return fmt::format("mistrusted: {:.0f} % of {} results are zero", 100.0 * zero_share, elements);
  if (judgement == Judgement::fail)
    return fmt::format("fail: {} of {} elements over the bound, worst {:.3g} times it at ({}, {}), relative L2 {:.2g}",
                       over_bound, elements, worst_ratio, first_m, first_n, relative_l2);
  return fmt::format("pass: {} elements, worst {:.2g} of the bound, relative L2 {:.2g}", elements, worst_ratio,
                     relative_l2);
}

}  // namespace tetrad
