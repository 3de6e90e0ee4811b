// The matmul to be done: Y[m,n] = X[m,k] * W[n,k]^T, as a value with one text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

// The least precise activations that the caller allows. A kernel with more precise activations is always allowed.
enum class Acc : std::uint8_t { w4a16, w4a8, w4a4 };

std::string_view name(Acc acc);

// How rows of a grouped problem lie: one group after the other, or a fixed slot per group with a row count.
enum class RowLayout : std::uint8_t { contiguous, masked };

std::string_view name(RowLayout layout);

// One problem. For a grouped one (MoE), m counts all rows over all groups, after routing (tokens * top_k).
struct Problem {
  std::int64_t m = 1;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType a = DType::bf16;   // activations as given
  DType w = DType::nvfp4;  // weights
  DType out = DType::bf16;
  Acc acc = Acc::w4a4;
  bool bias = false;        // + bias[n], added after alpha in the output type
  std::int64_t groups = 1;  // experts; each has its own [n,k] weights and global scale
  std::int64_t top_k = 1;   // groups per token
  RowLayout rows = RowLayout::contiguous;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// Several values of m for one (n, k, types): the unit that plan and bench work on.
struct ProblemSet {
  Problem base;                 // base.m == m.front()
  std::vector<std::int64_t> m;  // ascending, unique, never empty

  friend bool operator==(const ProblemSet&, const ProblemSet&) = default;
};

// Parses "m1,16,64 n34816 k5120 a=bf16 w=nvfp4 acc=w4a4 out=bf16 bias groups=8 topk=2 rows=masked". Words may come in
// any order; n and k are required, the rest has the defaults above. Errors (usage): unknown or repeated word (with the
// nearest known one), a value that is no number, zero or negative sizes, k not a multiple of 16, sizes above 2^31 - 1,
// operands whose byte count does not fit in 63 bits.
Result<ProblemSet> parse_problem(std::string_view text);

// The canonical text: every field that differs from its default, and always m, n, k, a, w, acc, out. Parses back.
std::string to_text(const Problem& problem);
std::string to_text(const ProblemSet& set);

// Arithmetic of the problem: 2 * m * n * k.
double flops(const Problem& problem);

}  // namespace tetrad
