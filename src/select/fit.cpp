#include "tetrad/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/text.hpp"
#include "tetrad/plan.hpp"

namespace tetrad {
namespace {

constexpr std::array<std::int64_t, 3> kFitM{1, 64, 1024};
constexpr double kSmallest = 1e-3;  // efficiencies searched: from here to 1

bool is_fit_m(std::int64_t m) { return std::find(kFitM.begin(), kFitM.end(), m) != kFitM.end(); }

// A fit in progress: log efficiencies of every kernel, {memory, compute} each.
struct Fit {
  const DeviceProfile& device;
  std::vector<const Candidate*> kernels;
  std::vector<const Measurement*> data;
  std::vector<double> log_efficiency;  // 2 per kernel
  std::optional<std::size_t> pinned;   // parameter that stays 0

  std::size_t index(std::string_view kernel) const {
    const auto found =
        std::find_if(kernels.begin(), kernels.end(), [&](const Candidate* c) { return c->name == kernel; });
    return static_cast<std::size_t>(found - kernels.begin());
  }
  CostParams cost(std::size_t kernel) const {
    return {kernels[kernel]->unit, std::exp(log_efficiency[2 * kernel]), std::exp(log_efficiency[2 * kernel + 1]), {}};
  }
  double seconds(std::size_t kernel, const Problem& problem) const {
    return model_time(problem, device, *kernels[kernel], cost(kernel)).seconds;
  }
  double predict(const Measurement& m) const {
    const double own = seconds(index(m.kernel), m.problem);
    return m.seconds > 0.0 ? own : own / seconds(index(m.ratio_of), m.problem);
  }
  std::vector<double> residuals() const {
    std::vector<double> out;
    for (const Measurement* m : data) {
      out.push_back(std::log(predict(*m) / (m->seconds > 0.0 ? m->seconds : m->ratio)));
    }
    return out;
  }
};

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return sum;
}

// Solves a x = b by Gauss-Jordan elimination with row pivoting; a is symmetric positive definite by its damping.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r) {
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    }
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = 0; i < n; ++i) b[i] /= a[i][i];
  return b;
}

// Levenberg-Marquardt with a difference quotient; every parameter stays within [log kSmallest, 0].
void minimise(Fit& fit) {
  constexpr int kSteps = 400;
  constexpr double kDifference = 1e-6;
  std::vector<std::size_t> free;
  for (std::size_t p = 0; p < fit.log_efficiency.size(); ++p) {
    if (fit.pinned != p) free.push_back(p);
  }
  double damping = 1e-3;
  std::vector<double> residual = fit.residuals();
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<double>> slopes;
    for (const std::size_t p : free) {
      const double kept = fit.log_efficiency[p];
      fit.log_efficiency[p] = kept + kDifference;
      std::vector<double> moved = fit.residuals();
      fit.log_efficiency[p] = kept;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = (moved[i] - residual[i]) / kDifference;
      slopes.push_back(std::move(moved));
    }
    std::vector<std::vector<double>> normal(free.size(), std::vector<double>(free.size()));
    std::vector<double> gradient(free.size());
    for (std::size_t i = 0; i < free.size(); ++i) {
      for (std::size_t r = 0; r < residual.size(); ++r) gradient[i] -= slopes[i][r] * residual[r];
      for (std::size_t j = 0; j < free.size(); ++j) {
        for (std::size_t r = 0; r < residual.size(); ++r) normal[i][j] += slopes[i][r] * slopes[j][r];
      }
      normal[i][i] = normal[i][i] * (1.0 + damping) + 1e-9;
    }
    const std::vector<double> delta = solve(std::move(normal), std::move(gradient));
    const std::vector<double> kept = fit.log_efficiency;
    for (std::size_t i = 0; i < free.size(); ++i) {
      double& value = fit.log_efficiency[free[i]];
      value = std::clamp(value + delta[i], std::log(kSmallest), 0.0);
    }
    std::vector<double> moved = fit.residuals();
    if (sum_of_squares(moved) < sum_of_squares(residual)) {
      residual = std::move(moved);
      damping = std::max(damping / 3.0, 1e-12);
    } else {
      fit.log_efficiency = kept;
      damping = std::min(damping * 4.0, 1e12);
    }
  }
}

// Kernel that moves the most bytes per time at the smallest fitted m.
std::size_t fastest_reader(const Fit& fit) {
  std::size_t best = 0;
  double best_rate = 0.0;
  const auto consider = [&](std::string_view kernel, const Problem& problem, double ratio) {
    const std::size_t i = fit.index(kernel);
    const double rate = model_time(problem, fit.device, *fit.kernels[i], fit.cost(i)).bytes / ratio;
    if (rate > best_rate) {
      best_rate = rate;
      best = i;
    }
  };
  for (const Measurement* m : fit.data) {
    if (m->problem.m != kFitM.front()) continue;
    consider(m->ratio_of, m->problem, 1.0);
    consider(m->kernel, m->problem, m->ratio);
  }
  return best;
}

Error fit_error(std::string what, std::string need, std::string have) {
  Error error;
  error.kind = ErrorKind::input;
  error.id = "TE0520";
  error.what = std::move(what);
  error.need = std::move(need);
  error.have = std::move(have);
  return error;
}

// Four decimals, as stored.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

}  // namespace

Result<FitReport> fit_costs(const DeviceProfile& device, std::span<const Candidate> peers,
                            std::span<const Measurement> measurements) {
  Fit fit{device, {}, {}, {}, {}};
  std::vector<const Measurement*> mine;
  for (const Measurement& m : measurements) {
    if (m.device == device.slug) mine.push_back(&m);
  }
  for (const Candidate& candidate : peers) {
    const auto uses = [&](const Measurement* m) {
      return m->kernel == candidate.name || m->ratio_of == candidate.name;
    };
    if (std::any_of(mine.begin(), mine.end(), uses)) fit.kernels.push_back(&candidate);
  }
  bool absolute = false;
  for (const Measurement* m : mine) {
    for (const std::string& kernel : {m->kernel, m->ratio_of}) {
      if (!kernel.empty() && fit.index(kernel) == fit.kernels.size()) {
        return fit_error("a measured kernel is unknown", "the name of a peer", kernel);
      }
    }
    absolute = absolute || m->seconds > 0.0;
    if (is_fit_m(m->problem.m)) fit.data.push_back(m);
  }
  if (fit.data.empty())
    return fit_error("nothing to fit", "measurements at m 1, 64 and 1024", "none for " + device.slug);
  for (std::size_t i = 0; i < fit.kernels.size(); ++i) {
    fit.log_efficiency.insert(fit.log_efficiency.end(), {std::log(0.8), std::log(0.3)});
  }
  for (std::size_t i = 0; i < fit.kernels.size(); ++i) {
    const std::string missing = model_time(mine.front()->problem, device, *fit.kernels[i], fit.cost(i)).missing;
    if (!missing.empty()) return fit_error("the device lacks a fact", missing, "unknown on " + device.slug);
  }
  FitReport report;
  if (!absolute) {
    const std::size_t kernel = fastest_reader(fit);
    report.pinned = fit.kernels[kernel]->name;
    fit.pinned = 2 * kernel;
    fit.log_efficiency[2 * kernel] = 0.0;
  }
  minimise(fit);
  // Rounded as they are stored, so that the judgement is about what is used.
  for (double& value : fit.log_efficiency) value = std::log(rounded(std::exp(value)));
  const std::string source = fmt::format("fitted to data/measurements/{}.json at m 1, 64, 1024", device.slug);
  for (std::size_t i = 0; i < fit.kernels.size(); ++i) {
    CostParams params = fit.cost(i);
    params.memory_efficiency = rounded(params.memory_efficiency);
    params.compute_efficiency = rounded(params.compute_efficiency);
    params.source = source;
    report.costs.push_back({fit.kernels[i]->name, device.slug, params});
  }
  std::size_t judged = 0;
  for (const Measurement* m : mine) {
    FitRow row{*m, fit.predict(*m), 0.0, is_fit_m(m->problem.m), m->note.find("reported apart") != std::string::npos};
    row.error = row.predicted / (m->seconds > 0.0 ? m->seconds : m->ratio) - 1.0;
    if (!row.fitted && !row.apart) {
      report.mean_error += std::abs(row.error);
      ++judged;
      if (std::abs(row.error) > std::abs(report.worst_error)) {
        report.worst_error = row.error;
        report.worst_row = report.rows.size();
      }
    }
    report.rows.push_back(std::move(row));
  }
  if (judged > 0) report.mean_error /= static_cast<double>(judged);
  return report;
}

std::string to_markdown(const FitReport& report, const DeviceProfile& device) {
  std::string out = fmt::format("### {}\n\n", device.slug);
  const double bandwidth = device.bandwidth().value.value_or(0.0);
  out += fmt::format("Read bandwidth {}/s.", core::quantity_text(bandwidth, "B"));
  if (!report.pinned.empty())
    out += fmt::format(" Ratios only: the memory efficiency of {} is pinned to 1.", report.pinned);
  out += "\n\n| kernel | unit | memory efficiency | compute efficiency | rate |\n|---|---|---|---|---|\n";
  for (const FittedCost& cost : report.costs) {
    const double peak = device.peak(cost.params.unit).value.value_or(0.0);
    out += fmt::format("| {} | {} | {:.4f} | {:.4f} | {}/s |\n", cost.kernel, name(cost.params.unit),
                       cost.params.memory_efficiency, cost.params.compute_efficiency,
                       core::quantity_text(peak * cost.params.compute_efficiency, "FLOP"));
  }
  out += fmt::format("\nWithheld: mean error {:.1f} %, worst {:+.1f} %", 100.0 * report.mean_error,
                     100.0 * report.worst_error);
  if (!report.rows.empty()) {
    const Measurement& worst = report.rows[report.worst_row].measurement;
    out += fmt::format(" ({} at m {}, {}x{})", worst.kernel, worst.problem.m, worst.problem.n, worst.problem.k);
  }
  out += ".\n\n| kernel | n x k | m | measured | model | error | |\n|---|---|---|---|---|---|---|\n";
  for (const FitRow& row : report.rows) {
    const Measurement& m = row.measurement;
    const bool absolute = m.seconds > 0.0;
    const std::string measured = absolute ? core::time_text(m.seconds) : fmt::format("{:.2f}", m.ratio);
    const std::string model = absolute ? core::time_text(row.predicted) : fmt::format("{:.2f}", row.predicted);
    out += fmt::format("| {} | {}x{} | {} | {} | {} | {:+.1f} % | {} |\n", m.kernel, m.problem.n, m.problem.k,
                       m.problem.m, measured, model, 100.0 * row.error,
                       row.apart    ? "apart"
                       : row.fitted ? "fitted"
                                    : "");
  }
  return out;
}

}  // namespace tetrad
