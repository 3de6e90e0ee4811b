// Times every built CPU row of the table over the shapes and M, after checking it with the judge, and the roof of the
// host in the same run: before each shape and after the last, since one sample may fall on a moment when the host
// runs other work. Shares are of the best samples. tetrad_bench_kernels OUT.json [NxK ...]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tetrad/host.hpp"
#include "tetrad/judge.hpp"
#include "tetrad/kernels.hpp"
#include "tetrad/parallel.hpp"

namespace {

using namespace tetrad;

constexpr std::int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
// Weights are rotated so that each launch reads them from memory.
constexpr std::int64_t kColdBytes = std::int64_t{96} << 20;
constexpr double kSecondsPerPoint = 0.2;
constexpr std::size_t kLeastLaunches = 3;
constexpr int kMostAttempts = 4;
constexpr double kQuiet = 1.15;  // a pulse below this multiple of the shortest one has the machine to itself

struct Copy {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  QuantizedTensor view;
};

std::vector<Copy> make_weights(std::int64_t n, std::int64_t k) {
  const std::int64_t bytes = n * k / 2 + n * k / kBlock;
  std::vector<Copy> copies(static_cast<std::size_t>((kColdBytes + bytes - 1) / bytes));
  std::mt19937 random(1);
  for (Copy& copy : copies) {
    copy.codes.resize(static_cast<std::size_t>(n * k / 2));
    copy.scales.resize(static_cast<std::size_t>(n * k / kBlock));
    for (std::uint8_t& byte : copy.codes) byte = static_cast<std::uint8_t>(random());
    for (std::uint8_t& byte : copy.scales) byte = static_cast<std::uint8_t>(0x30 + random() % 16);
    copy.view.rows = n;
    copy.view.k = k;
    copy.view.codes = copy.codes.data();
    copy.view.code_stride = k / 2;
    copy.view.scales = copy.scales.data();
    copy.view.scale_stride = k / kBlock;
    copy.view.global.value = 0.001F;
    copy.view.input_global = GlobalScale{0.002F, GlobalScale::Kind::multiplier};
  }
  return copies;
}

// The first rows of weights against the reference; the whole product would take longer than the measurement.
bool correct(const KernelDescriptor& row, const QuantizedTensor& weights, const ConstMatrix& x) {
  const QuantizedTensor part = weights.row_slice(0, std::min<std::int64_t>(weights.rows, 64));
  auto kernel = row.bind({&part, 1});
  if (!kernel) return false;
  std::vector<float> y(static_cast<std::size_t>(x.rows * part.rows));
  MatmulArgs args;
  args.x = x;
  args.y = {y.data(), DType::f32, x.rows, part.rows, part.rows};
  if (!(*kernel)->launch(args)) return false;
  const auto reference = exact_product({&part, 1}, x, row.candidate.acc);
  if (!reference) return false;
  const JudgeReport report =
      judge({y.data(), DType::f32, x.rows, part.rows, part.rows}, *reference, {part.k, DType::f32, 1.0, false});
  if (report.judgement != Judgement::pass) fmt::print(stderr, "{}: {}\n", row.candidate.name, report.text());
  return report.judgement == Judgement::pass;
}

// Seconds of a fixed amount of arithmetic on all threads. On a shared host it doubles while the threads' cores are one
// core's two halves, or another guest's.
double pulse_seconds(int threads) {
  const auto start = std::chrono::steady_clock::now();
  parallel_for(threads, 1, threads, [](std::int64_t, std::int64_t, int) {
    constexpr int kChains = 128;
    float chains[kChains] = {};
    for (int round = 0; round < 60000; ++round)
      for (float& value : chains) value = value * 0.5F + 1.0F;
    volatile float kept = chains[0] + chains[kChains - 1];
    static_cast<void>(kept);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Timing {
  double seconds = 0.0;  // 0: a launch failed
  double pulse = 0.0;    // the slower of the pulses before and after
};

Timing median_seconds(std::vector<std::unique_ptr<BoundKernel>>& kernels, const MatmulArgs& args, int threads) {
  Timing result;
  result.pulse = pulse_seconds(threads);
  std::vector<double> seconds;
  double total = 0.0;
  for (std::size_t i = 0; total < kSecondsPerPoint || seconds.size() < kLeastLaunches; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!kernels[i % kernels.size()]->launch(args)) return result;
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) seconds.push_back(spent);  // the first launch allocates
    total += spent;
  }
  result.pulse = std::max(result.pulse, pulse_seconds(threads));
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  result.seconds = seconds[seconds.size() / 2];
  return result;
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: tetrad_bench_kernels OUT.json [NxK ...]\n");
    return 2;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
  std::string command = "tetrad_bench_kernels OUT.json";
  for (int i = 2; i < argc; ++i) {
    long long n = 0;
    long long k = 0;
    if (std::sscanf(argv[i], "%lldx%lld", &n, &k) != 2 || n < 1 || k < 16 || k % 16 != 0) {
      fmt::print(stderr, "not a shape NxK with k a multiple of 16: {}\n", argv[i]);
      return 2;
    }
    shapes.emplace_back(n, k);
    command += std::string(" ") + argv[i];
  }
  if (shapes.empty()) shapes = {{4096, 14336}, {4096, 4096}, {17408, 5120}};

  const int all = hardware_threads();
  nlohmann::json result;
  result["schema"] = "tetrad.bench_kernels/1.0";
  result["date"] = date();
  result["command"] = command;
  result["device"] = host_device().name;
  for (int threads = 1; threads <= all; threads = threads == all ? all + 1 : std::min(2 * threads, all)) {
    HostRoof best{};
    double best_pulse = pulse_seconds(threads);
    for (int i = 0; i < 100; ++i) best_pulse = std::min(best_pulse, pulse_seconds(threads));
    nlohmann::json samples;
    const auto sample_roof = [&] {
      const HostRoof roof = measure_host(threads);
      samples.push_back({{"read_gb_per_s", roof.read_bytes_per_s * 1e-9},
                         {"read_kernel", roof.read_kernel},
                         {"fma_gflops", roof.fma_flops_per_s * 1e-9},
                         {"int8_gops", roof.int8_ops_per_s * 1e-9}});
      best.read_bytes_per_s = std::max(best.read_bytes_per_s, roof.read_bytes_per_s);
      best.fma_flops_per_s = std::max(best.fma_flops_per_s, roof.fma_flops_per_s);
      best.int8_ops_per_s = std::max(best.int8_ops_per_s, roof.int8_ops_per_s);
      best.isa = roof.isa;
    };
    nlohmann::json rows;
    for (const auto& [n, k] : shapes) {
      sample_roof();
      const std::vector<Copy> weights = make_weights(n, k);
      std::vector<std::uint16_t> x(static_cast<std::size_t>(std::end(kRows)[-1] * k));  // bfloat16
      std::mt19937 random(2);
      std::normal_distribution<float> normal;
      for (std::uint16_t& value : x) value = f32_to_bf16(normal(random));
      for (const KernelDescriptor& row : kernel_table()) {
        if (row.bind == nullptr || row.candidate.reference) continue;
        std::vector<std::unique_ptr<BoundKernel>> kernels;
        for (const Copy& copy : weights) {
          auto bound = row.bind({&copy.view, 1});
          if (!bound) return 1;
          kernels.push_back(std::move(*bound));
        }
        for (const std::int64_t m : kRows) {
          const ConstMatrix activations{x.data(), DType::bf16, m, k, k};
          if (!correct(row, weights.front().view, activations)) return 4;
          std::vector<float> y(static_cast<std::size_t>(m * n));
          MatmulArgs args;
          args.x = activations;
          args.y = {y.data(), DType::f32, m, n, n};
          args.threads = threads;
          // Of several tries the first between two pulses of full speed counts, whatever its own time is.
          Timing timing;
          for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
            const Timing next = median_seconds(kernels, args, threads);
            if (next.seconds == 0.0) return 1;
            best_pulse = std::min(best_pulse, next.pulse);
            if (attempt == 0 || next.pulse < timing.pulse) timing = next;
            if (timing.pulse < kQuiet * best_pulse) break;
          }
          const double seconds = timing.seconds;
          const double bytes = static_cast<double>(n * k) * row.candidate.weight_bytes_per_element;
          const double flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
          rows.push_back({{"kernel", row.candidate.name},
                          {"a", "bf16"},
                          {"digest", row.digest},
                          {"n", n},
                          {"k", k},
                          {"m", m},
                          {"threads", threads},
                          {"seconds", seconds},
                          {"pulse_over_best", timing.pulse / best_pulse},
                          {"weight_gb_per_s", bytes / seconds * 1e-9},
                          {"gflops", flops / seconds * 1e-9}});
          fmt::print("{:18} {}x{} m {:3} threads {} {:9.3f} ms {:5.1f} GB/s {:6.1f} GFLOP/s\n", row.candidate.name, n,
                     k, m, threads, seconds * 1e3, bytes / seconds * 1e-9, flops / seconds * 1e-9);
        }
      }
    }
    sample_roof();
    const double read = best.read_bytes_per_s * 1e-9;
    const double fma = best.fma_flops_per_s * 1e-9;
    for (nlohmann::json& row : rows) {
      row["share_of_read"] = row["weight_gb_per_s"].get<double>() / read;
      row["share_of_fma"] = row["gflops"].get<double>() / fma;
      result["rows"].push_back(std::move(row));
    }
    result["roof"].push_back({{"threads", threads},
                              {"read_gb_per_s", read},
                              {"fma_gflops", fma},
                              {"int8_gops", best.int8_ops_per_s * 1e-9},
                              {"isa", best.isa},
                              {"samples", samples}});
  }
  std::ofstream file(argv[1]);
  file << result.dump(1) << '\n';
  file.close();
  if (!file) {
    fmt::print(stderr, "cannot write {}\n", argv[1]);
    return 1;
  }
  return 0;
}
