#include "measure.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>

#include "tetrad/nvfp4.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad::measure {
namespace {

constexpr double kWeightSigma = 0.02;
// No normal value of a matrix that fits in memory is expected beyond this many standard deviations.
constexpr double kSigmas = 8.0;
constexpr double kSlowCall = 2.0;
constexpr std::int64_t kUnknownCacheBytes = std::int64_t{64} << 20;

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

// A generator per row, so that rows do not depend on who makes them.
std::mt19937_64 generator(std::uint64_t seed, std::int64_t row) {
  std::seed_seq sequence{seed, seed >> 32, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(row) >> 32};
  return std::mt19937_64(sequence);
}

void fill_normal(std::uint64_t seed, std::int64_t row, double sigma, std::span<float> out) {
  std::mt19937_64 random = generator(seed, row);
  std::normal_distribution<float> normal(0.0F, static_cast<float>(sigma));
  for (float& value : out) value = normal(random);
}

void store(const Matrix& matrix, std::int64_t row, std::int64_t col, float value) {
  const std::size_t at = size(row * matrix.stride + col);
  switch (matrix.type) {
    case DType::bf16:
      static_cast<std::uint16_t*>(matrix.data)[at] = f32_to_bf16(value);
      break;
    case DType::f16:
      static_cast<std::uint16_t*>(matrix.data)[at] = f32_to_f16(value);
      break;
    default:
      static_cast<float*>(matrix.data)[at] = value;
      break;
  }
}

// Bytes that this process may still take: the least of what the machine has available and its own limit.
double free_memory() {
  double bytes = std::numeric_limits<double>::infinity();
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    double kib = 0.0;
    if (key == "MemAvailable:" && file >> kib) bytes = kib * 1024.0;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min(bytes, static_cast<double>(limit.rlim_cur));
  }
  return bytes;
}

std::vector<std::int64_t> pick(std::int64_t count, std::int64_t of, std::uint64_t seed) {
  std::vector<std::int64_t> all(size(of));
  std::iota(all.begin(), all.end(), 0);
  if (count >= of) return all;
  std::vector<std::int64_t> chosen;
  std::mt19937_64 random(seed);
  std::sample(all.begin(), all.end() - 1, std::back_inserter(chosen), size(count - 1), random);
  chosen.push_back(of - 1);
  return chosen;
}

}  // namespace

Dense::Dense(DType type, std::int64_t rows, std::int64_t cols)
    : type_(type), rows_(rows), cols_(cols), bytes_(size(rows * cols) * size(bits(type)) / 8) {}

ConstMatrix Dense::view() const { return {bytes_.data(), type_, rows_, cols_, cols_}; }
Matrix Dense::view() { return {bytes_.data(), type_, rows_, cols_, cols_}; }
void Dense::set(std::int64_t row, std::int64_t col, float value) { store(view(), row, col, value); }

Dense random_normal(DType type, std::int64_t rows, std::int64_t cols, std::uint64_t seed, int threads) {
  Dense result(type, rows, cols);
  parallel_for(rows, 1, threads, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> values(size(cols));
    for (std::int64_t row = begin; row < end; ++row) {
      fill_normal(seed, row, 1.0, values);
      for (std::int64_t col = 0; col < cols; ++col) result.set(row, col, values[size(col)]);
    }
  });
  return result;
}

ConstMatrix first_rows(const ConstMatrix& matrix, std::int64_t m) {
  ConstMatrix part = matrix;
  part.rows = m;
  return part;
}

Result<Weights> Weights::random(std::int64_t rows, std::int64_t k, std::uint64_t seed, int threads) {
  Weights result;
  result.rows_ = rows;
  result.k_ = k;
  result.global_ = {global_scale_for(static_cast<float>(kSigmas * kWeightSigma), QuantMethod::rtn),
                    GlobalScale::Kind::multiplier};
  result.codes_.resize(size(rows * k / 2));
  result.scales_.resize(size(rows * k / kBlock));
  std::mutex mutex;
  std::optional<Error> failure;
  parallel_for(rows, 16, threads, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> values(size(k));
    for (std::int64_t row = begin; row < end; ++row) {
      fill_normal(seed, row, kWeightSigma, values);
      const Status done =
          quantize({values.data(), DType::f32, 1, k, k}, result.global_.value, QuantMethod::rtn,
                   result.codes_.data() + row * k / 2, result.scales_.data() + row * k / kBlock, nullptr, 1);
      if (!done) {
        const std::lock_guard lock(mutex);
        failure = done.error();
      }
    }
  });
  if (failure) return *failure;
  return result;
}

Weights Weights::copy_rows(const QuantizedTensor& tensor, std::span<const std::int64_t> rows) {
  Weights result;
  result.rows_ = static_cast<std::int64_t>(rows.size());
  result.k_ = tensor.k;
  result.global_ = tensor.global;
  result.input_global_ = tensor.input_global;
  result.codes_.resize(rows.size() * size(tensor.k / 2));
  result.scales_.resize(rows.size() * size(tensor.k / kBlock));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(result.codes_.data() + i * size(tensor.k / 2), tensor.codes + rows[i] * tensor.code_stride,
                size(tensor.k / 2));
    std::memcpy(result.scales_.data() + i * size(tensor.k / kBlock), tensor.scales + rows[i] * tensor.scale_stride,
                size(tensor.k / kBlock));
  }
  return result;
}

Weights copy(const QuantizedTensor& tensor) {
  std::vector<std::int64_t> rows(size(tensor.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return Weights::copy_rows(tensor, rows);
}

QuantizedTensor Weights::view() const {
  QuantizedTensor tensor;
  tensor.rows = rows_;
  tensor.k = k_;
  tensor.codes = codes_.data();
  tensor.code_stride = k_ / 2;
  tensor.scales = scales_.data();
  tensor.scale_stride = k_ / kBlock;
  tensor.global = global_;
  tensor.input_global = input_global_;
  return tensor;
}

GlobalScale input_scale_for(float amax) {
  return {global_scale_for(amax, QuantMethod::rtn), GlobalScale::Kind::multiplier};
}

MatmulArgs Operands::args(const Matrix& y, int threads) const {
  MatmulArgs result;
  result.x = x;
  result.y = y;
  result.bias = bias;
  result.group_offsets = offsets;
  result.threads = threads;
  return result;
}

RandomOperands::RandomOperands(std::vector<Weights> weights, Dense x, std::vector<float> bias)
    : weights_(std::move(weights)), x_(std::move(x)), bias_(std::move(bias)) {}

Result<RandomOperands> RandomOperands::make(const Problem& problem, std::int64_t max_m, std::uint64_t seed,
                                            int threads) {
  if (problem.rows == RowLayout::masked) {
    return Error{ErrorKind::unavailable,
                 "TE0663",
                 "random operands cannot be made for this row layout",
                 to_text(problem),
                 "rows=contiguous",
                 "rows=masked",
                 {},
                 ""};
  }
  if (problem.w != DType::nvfp4) {
    return Error{ErrorKind::unavailable,
                 "TE0663",
                 "random operands cannot be made for these weights",
                 to_text(problem),
                 "w=nvfp4",
                 fmt::format("w={}", name(problem.w)),
                 {},
                 ""};
  }
  // Operands, results, and the fp32 copy of the activations that most kernels pack.
  Problem largest = problem;
  largest.m = max_m;
  const double need = minimal_bytes(largest) + 4.0 * static_cast<double>(max_m) * static_cast<double>(problem.k);
  if (const double have = free_memory(); need > have) {
    return Error{ErrorKind::unavailable,
                 "TE0669",
                 "the problem does not fit into memory",
                 to_text(largest),
                 fmt::format("{:.3g} GB", need * 1e-9),
                 fmt::format("{:.3g} GB free", have * 1e-9),
                 {},
                 "tetrad plan needs no memory for operands"};
  }
  Dense x = random_normal(problem.a, max_m, problem.k, seed, threads);
  const Result<float> amax = absmax(std::as_const(x).view(), threads);
  if (!amax) return amax.error();
  std::vector<Weights> weights;
  for (std::int64_t g = 0; g < problem.groups; ++g) {
    Result<Weights> weight = Weights::random(problem.n, problem.k, seed + 1 + static_cast<std::uint64_t>(g), threads);
    if (!weight) return weight.error();
    weight->set_input_global(input_scale_for(*amax));
    weights.push_back(std::move(*weight));
  }
  std::vector<float> bias(problem.bias ? size(problem.n) : 0);
  fill_normal(seed, -1, 1.0, bias);
  return RandomOperands(std::move(weights), std::move(x), std::move(bias));
}

Operands RandomOperands::view(std::int64_t m) const {
  Operands result;
  for (const Weights& weight : weights_) result.weights.push_back(weight.view());
  result.x = first_rows(x_.view(), m);
  result.bias = bias_.empty() ? nullptr : bias_.data();
  const auto groups = static_cast<std::int64_t>(weights_.size());
  for (std::int64_t g = 0; groups > 1 && g <= groups; ++g) result.offsets.push_back(m * g / groups);
  return result;
}

Result<Timing> time_calls(double min_seconds, std::int64_t min_runs,
                          const std::function<Status(std::int64_t run)>& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  double total = 0.0;
  while (times.empty() ||
         (times.front() < kSlowCall && (total < min_seconds || static_cast<std::int64_t>(times.size()) < min_runs))) {
    const auto begin = Clock::now();
    const Status done = call(static_cast<std::int64_t>(times.size()));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (!done) return done.error();
    times.push_back(seconds);
    total += seconds;
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(std::llround(share * static_cast<double>(times.size() - 1)))];
  };
  return Timing{at(0.5), at(0.1), at(0.9), static_cast<std::int64_t>(times.size())};
}

double minimal_bytes(const Problem& p) {
  const double weights = static_cast<double>(p.groups) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                         (bits(p.w) / 8.0 + (p.w == DType::nvfp4 ? 1.0 / kBlock : 0.0));
  return weights + static_cast<double>(p.m) *
                       (static_cast<double>(p.k) * bits(p.a) / 8.0 + static_cast<double>(p.n) * bits(p.out) / 8.0);
}

RoofTime roof_time(const Problem& problem, Unit unit, const HostRoof& roof, bool cached) {
  const Unit rate = unit == Unit::int8 ? unit : Unit::fp32;
  const double memory = cached ? 0.0 : minimal_bytes(problem) / roof.read_bytes_per_s;
  const double compute = flops(problem) / (rate == Unit::int8 ? roof.int8_ops_per_s : roof.fma_flops_per_s);
  return {std::max(memory, compute), memory >= compute, rate};
}

HostRoof higher(const HostRoof& a, const HostRoof& b) {
  HostRoof roof = a.read_bytes_per_s >= b.read_bytes_per_s ? a : b;
  roof.fma_flops_per_s = std::max(a.fma_flops_per_s, b.fma_flops_per_s);
  roof.int8_ops_per_s = std::max(a.int8_ops_per_s, b.int8_ops_per_s);
  return roof;
}

std::string_view limit(const RoofTime& roof) { return roof.memory ? "memory" : name(roof.unit); }

char letter(const RoofTime& roof) { return limit(roof).front(); }

std::int64_t cache_bytes(const DeviceProfile& host) { return host.l2_bytes.value.value_or(kUnknownCacheBytes); }

bool stays_in_cache(const Problem& problem, const DeviceProfile& host) {
  Problem weights = problem;
  weights.m = 0;
  return minimal_bytes(weights) <= static_cast<double>(cache_bytes(host));
}

Result<Plan> plan_here(const ProblemSet& problem, const DeviceProfile& host, const std::string& force,
                       bool has_input_scale, const Records& records) {
  PlanOptions options;
  options.question = Question::this_build;
  options.force = force;
  options.has_input_scale = has_input_scale;
  Result<Plan> plan = make_plan(problem, host, Software{}, kernel_candidates(), records, options);
  if (!plan) return plan.error();
  for (const Choice& choice : plan->choices) {
    if (!choice.kernel.empty()) continue;
    Error error{ErrorKind::unavailable,
                "TE0660",
                "no kernel of this build can run the problem",
                to_text(problem),
                "one eligible kernel",
                "none",
                {},
                ""};
    for (const Considered& considered : choice.considered) {
      if (considered.verdict.reason == Reason::not_built || considered.verdict.reason == Reason::target_mismatch)
        continue;
      error.causes.push_back(fmt::format("{}: {} {} (need {}, have {})", considered.kernel,
                                         id(considered.verdict.reason), name(considered.verdict.reason),
                                         considered.verdict.need, considered.verdict.have));
    }
    error.hint = fmt::format("tetrad plan \"{}\" --device host", to_text(problem));
    return error;
  }
  return plan;
}

bool Sample::full() const {
  return static_cast<std::int64_t>(rows.size()) == all_rows && static_cast<std::int64_t>(cols.size()) == all_cols;
}

std::string Sample::text() const {
  if (full()) return "all elements";
  return fmt::format("{} of {} rows x {} of {} columns, at random", rows.size(), all_rows, cols.size(), all_cols);
}

Sample choose_sample(std::int64_t m, std::int64_t n, std::int64_t k, double budget, std::uint64_t seed) {
  const double elements = std::max(1.0, budget / static_cast<double>(k));
  std::int64_t cols = n;
  std::int64_t rows = m;
  if (static_cast<double>(m) * static_cast<double>(n) > elements) {
    rows = std::min<std::int64_t>(m, 32);
    cols = std::clamp<std::int64_t>(static_cast<std::int64_t>(elements / static_cast<double>(rows)), 1, n);
    rows = std::clamp<std::int64_t>(static_cast<std::int64_t>(elements / static_cast<double>(cols)), 1, m);
  }
  return {pick(rows, m, seed), pick(cols, n, seed + 1), m, n};
}

std::string_view word(Judgement judgement) {
  switch (judgement) {
    case Judgement::pass:
      return "ok";
    case Judgement::fail:
      return "WRONG";
    case Judgement::mistrusted:
      return "MISTRUSTED";
  }
  return "WRONG";
}

namespace {

Error output_error(std::string_view step, const std::string& path, const std::string& have) {
  return Error{ErrorKind::input,
               "TE0661",
               fmt::format("the file cannot be {}", step),
               path,
               "a folder that can be written",
               have,
               {},
               ""};
}

}  // namespace

Status check_output(const std::string& path) {
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (std::filesystem::is_directory(path, code)) return output_error("created", path, "a folder of that name");
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return output_error("created", path, std::strerror(errno));
  }
  return ok();
}

Status write_file(const std::string& path, std::string_view text) {
  const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return output_error("created", path, std::strerror(errno));
  const auto failed = [&](std::string_view step) {
    const int reason = errno;
    ::unlink(beside.c_str());
    return output_error(step, path, std::strerror(reason));
  };
  bool written = true;
  while (written && !text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done > 0) text.remove_prefix(static_cast<std::size_t>(done));
    written = done > 0 || (done < 0 && errno == EINTR);
  }
  written = written && ::fsync(fd) == 0;
  const int reason = errno;
  written = ::close(fd) == 0 && written;
  if (!written) {
    if (reason != 0) errno = reason;
    return failed("written");
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) return failed("renamed");
  return ok();
}

}  // namespace tetrad::measure
