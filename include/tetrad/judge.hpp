// The comparison that every kernel test, run and benchmark uses: element by element, against a bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tetrad/types.hpp"

namespace tetrad {

// The exact product and the scale of its rounding errors, per element of y[m,n].
struct Reference {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::vector<double> value;      // alpha * sum a*b (+ bias), rounded at most once to double
  std::vector<double> magnitude;  // |alpha| * sum |a*b| (+ |bias|)
};

struct JudgeOptions {
  std::int64_t k = 0;       // length of the sums
  DType out = DType::f32;   // type of the result; sets u_out
  double c = 1.0;           // factor of the bound, measured per architecture
  bool exact = false;       // demand bit equality with the once-rounded reference
};

enum class Judgement : std::uint8_t { pass, fail, mistrusted };

// Bound: |y - ref| <= c * k * 2^-24 * magnitude + u_out * |ref| (+ the smallest subnormal of the output type);
// NaN and Inf must stand in the same places. A result that is zero where the reference rarely is, is mistrusted.
struct JudgeReport {
  Judgement judgement = Judgement::fail;
  std::int64_t elements = 0;
  std::int64_t over_bound = 0;
  std::int64_t first_m = -1;        // of the worst element
  std::int64_t first_n = -1;
  double worst_ratio = 0.0;         // max |error| / bound
  double relative_l2 = 0.0;         // ||y - ref|| / ||ref||
  double worst_row_l2 = 0.0;
  double zero_share = 0.0;
  std::string text() const;         // one line for people
};

JudgeReport judge(const ConstMatrix& y, const Reference& reference, const JudgeOptions& options);

}  // namespace tetrad
