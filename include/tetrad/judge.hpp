// The comparison that every kernel test, run and benchmark uses: element by element, against a bound.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tetrad/error.hpp"
#include "tetrad/problem.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

// The exact product and the scale of its rounding errors, per element of y[m,n].
struct Reference {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::vector<double> value;      // alpha * sum a*b (+ bias): exact products, sums in double
  std::vector<double> magnitude;  // |alpha| * sum |a*b| (+ |bias|)
};

// The product of the operands as a kernel of precision `acc` sees them: activations as given (w4a16), rounded to int8
// per 16 along k (w4a8), or rounded to NVFP4 with the static input scale (w4a4). Products are exact, sums are in double
// (error below k * 2^-53 * magnitude). `weights`: one tensor per group; `group_offsets` as in MatmulArgs, empty for
// dense; `bias` [n] or null; threads 0 = all. Errors: shapes that do not fit (usage), weights that cannot be read
// (input), w4a4 without an input scale (input).
Result<Reference> exact_product(std::span<const QuantizedTensor> weights, const ConstMatrix& x, Acc acc = Acc::w4a16,
                                const float* bias = nullptr, std::span<const std::int64_t> group_offsets = {},
                                int threads = 0);

struct JudgeOptions {
  std::int64_t k = 0;      // length of the sums
  DType out = DType::f32;  // type of the result; sets u_out
  double c = 1.0;          // factor of the bound, measured per architecture
  bool exact = false;      // demand bit equality with the once-rounded reference
};

// `mistrusted`: nothing was compared, or most results are zero where the reference rarely is.
enum class Judgement : std::uint8_t { pass, fail, mistrusted };

// Bound: |y - ref| <= e + u_out * (|ref| + e) + the smallest subnormal of the output type, e = c * k * 2^-24 *
// magnitude, u_out = 2^-24 (f32), 2^-8 (bf16), 2^-11 (f16). Source: the classical bound of a sum of k terms in fp32 and
// one rounding of the result. NaN and Inf must stand in the same places; Inf may also stand where the rounded reference
// overflows.
struct JudgeReport {
  Judgement judgement = Judgement::fail;
  std::int64_t elements = 0;
  std::int64_t over_bound = 0;
  std::int64_t first_m = -1;  // of the worst element
  std::int64_t first_n = -1;
  double worst_ratio = 0.0;  // max |error| / bound; Inf where NaN or Inf stand in the wrong place
  double relative_l2 = 0.0;  // ||y - ref|| / ||ref||
  double worst_row_l2 = 0.0;
  double zero_share = 0.0;
  std::string text() const;  // one line for people
};

// `y` and the reference have the same shape; a differing one fails with no element compared.
JudgeReport judge(const ConstMatrix& y, const Reference& reference, const JudgeOptions& options);

}  // namespace tetrad
