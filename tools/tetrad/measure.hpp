// What run, bench and tetrad-embed share: operands with memory, choosing a kernel on this host, timing, judging.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"
#include "tetrad/host.hpp"
#include "tetrad/judge.hpp"
#include "tetrad/kernels.hpp"
#include "tetrad/plan.hpp"
#include "tetrad/problem.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"

namespace tetrad::measure {

// A row-major matrix that owns its elements.
class Dense {
 public:
  Dense(DType type, std::int64_t rows, std::int64_t cols);
  ConstMatrix view() const;
  Matrix view();
  void set(std::int64_t row, std::int64_t col, float value);  // rounded to the type, to nearest even

 private:
  DType type_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::vector<std::uint8_t> bytes_;
};

// Standard normal values, the same for the same seed whatever the number of threads.
Dense random_normal(DType type, std::int64_t rows, std::int64_t cols, std::uint64_t seed, int threads);
// Rows [0, m) of a matrix.
ConstMatrix first_rows(const ConstMatrix& matrix, std::int64_t m);

// NVFP4 weights that own their bytes, linear scales.
class Weights {
 public:
  // Normal values of standard deviation 0.02, quantised by round-to-nearest.
  static Result<Weights> random(std::int64_t rows, std::int64_t k, std::uint64_t seed, int threads);
  // A copy of the given rows of a tensor with linear scales.
  static Weights copy_rows(const QuantizedTensor& tensor, std::span<const std::int64_t> rows);
  QuantizedTensor view() const;
  void set_input_global(GlobalScale scale) { input_global_ = scale; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t k_ = 0;
  GlobalScale global_;
  std::optional<GlobalScale> input_global_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
};
Weights copy(const QuantizedTensor& tensor);

// The static activation scale that covers this amax: a multiplier, amax / (6 * 448).
GlobalScale input_scale_for(float amax);

// Median and the 10th and 90th percentile of single calls.
struct Timing {
  double median_s = 0.0;
  double low_s = 0.0;
  double high_s = 0.0;
  std::int64_t runs = 0;
};
// Calls until `min_seconds` have passed and `min_runs` calls are done (one call is enough if it takes 2 s or more).
// `call` gets the index of the run. Stops at the first error.
Result<Timing> time_calls(double min_seconds, std::int64_t min_runs,
                          const std::function<Status(std::int64_t run)>& call);

// Bytes that a call has to move at least: codes, block scales, activations and results.
double minimal_bytes(const Problem& problem);
// Time that this host's measured roof allows a kernel: bytes over the read bandwidth, or operations over the
// multiply-add rate of the kernel's unit (int8, else fp32). Where the weights may stay in a cache (`cached`) the
// bandwidth of memory is no limit, and only the rate counts.
struct RoofTime {
  double seconds = 0.0;
  bool memory = true;  // which of the two binds
  Unit unit = Unit::fp32;
};
RoofTime roof_time(const Problem& problem, Unit unit, const HostRoof& roof, bool cached);
// The larger of each limit of two measurements: neighbours on the machine only make a roof look lower.
HostRoof higher(const HostRoof& a, const HostRoof& b);
// "memory", "fp32" or "int8".
std::string_view limit(const RoofTime& roof);
// One letter for tables: m memory, f fp32 rate, i int8 rate.
char letter(const RoofTime& roof);
// May a copy of the problem's weights stay in the last cache of this host? Unknown sizes count as 64 MiB.
bool stays_in_cache(const Problem& problem, const DeviceProfile& host);
std::int64_t cache_bytes(const DeviceProfile& host);

// Fresh plan for this host and build. `force` empty: the planner's choice. Errors: those of make_plan; (unavailable) a
// choice without a kernel, with the nearest verdicts as causes.
Result<Plan> plan_here(const ProblemSet& problem, const DeviceProfile& host, const std::string& force,
                       bool has_input_scale, const Records& records = known_records());

// The compared part of a result: all of it, or random rows and columns where all would cost too much.
struct Sample {
  std::vector<std::int64_t> rows;  // ascending
  std::vector<std::int64_t> cols;
  std::int64_t all_rows = 0;
  std::int64_t all_cols = 0;
  bool full() const;
  // "all elements" or "8 of 4096 rows x 512 of 34816 columns, at random".
  std::string text() const;
};
// At most `budget` multiply-adds; the last row and column are always in.
Sample choose_sample(std::int64_t m, std::int64_t n, std::int64_t k, double budget, std::uint64_t seed);
// Multiply-adds that a comparison may cost unless a caller says otherwise: a second or so of one core.
inline constexpr double kReferenceBudget = 5e8;

// y against the exact product of the operands as the kernel sees them (activations rounded as its precision says).
// `bias` may be null. Errors: those of the reference row.
Result<JudgeReport> compare(const Candidate& kernel, const ConstMatrix& x, const QuantizedTensor& weight,
                            const float* bias, const ConstMatrix& y, const Sample& sample, int threads);
// ||y - (x w^T + bias)|| / ||x w^T + bias|| over the sample, with unquantised weights [n, k].
double relative_to_dense(const ConstMatrix& x, const ConstMatrix& weight, const float* bias, const ConstMatrix& y,
                         const Sample& sample, int threads);

// What one launch works on: views only.
struct Operands {
  std::vector<QuantizedTensor> weights;  // one per group
  ConstMatrix x;                         // [m, k]
  const float* bias = nullptr;           // [n] or null
  std::vector<std::int64_t> offsets;     // groups + 1; empty for dense

  MatmulArgs args(const Matrix& y, int threads) const;
};

struct Checked {
  JudgeReport report;    // of the worst group
  std::string compared;  // Sample::text
};
// Judges y of every group; a grouped result fails if one group does.
Result<Checked> check(const Candidate& kernel, const Operands& operands, const ConstMatrix& y, int threads);

// Random operands of a problem that own their memory: weights per group, activations for up to `max_m` rows, a static
// input scale from the activations' amax, a bias where the problem has one.
class RandomOperands {
 public:
  // Errors (unavailable): rows=masked, weights other than NVFP4, more memory than the host has free.
  static Result<RandomOperands> make(const Problem& problem, std::int64_t max_m, std::uint64_t seed, int threads);
  // Groups share the rows evenly.
  Operands view(std::int64_t m) const;

 private:
  RandomOperands(std::vector<Weights> weights, Dense x, std::vector<float> bias);
  std::vector<Weights> weights_;
  Dense x_;
  std::vector<float> bias_;
};

std::string_view word(Judgement judgement);  // "ok", "WRONG", "MISTRUSTED"

// Can write_file() write there? Asked before long work. Errors (input): no such folder, no right to write, a folder.
Status check_output(const std::string& path);
// Writes beside `path`, syncs and renames, so that there is the old file or the whole new one. Errors (input): each
// step, by name; nothing stays behind.
Status write_file(const std::string& path, std::string_view text);

}  // namespace tetrad::measure
