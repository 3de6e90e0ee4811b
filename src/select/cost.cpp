#include "select/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tetrad {
namespace select {
namespace {

constexpr double kNvFp4Bytes = 0.5625;  // 4 bits and 1/16 of a scale byte

double real(std::int64_t value) { return static_cast<double>(value); }

double element_bytes(DType type) { return type == DType::nvfp4 ? kNvFp4Bytes : bits(type) / 8.0; }

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace

double bytes_moved(const Problem& problem, const Candidate& candidate) {
  const double mk = real(problem.m) * real(problem.k);
  const double a = candidate.a_bytes_per_element > 0.0 ? candidate.a_bytes_per_element : element_bytes(problem.a);
  return real(problem.groups) * real(problem.n) * real(problem.k) * candidate.weight_bytes_per_element +
         mk * (a + candidate.extra_bytes_per_mk) + real(problem.m) * real(problem.n) * element_bytes(problem.out);
}

double padded_operations(const Problem& problem, const DeviceProfile& device, const Candidate& candidate) {
  const int along_m = candidate.swap_ab ? candidate.tile.n : candidate.tile.m;
  const int along_n = candidate.swap_ab ? candidate.tile.m : candidate.tile.n;
  const std::int64_t rows = along_m > 0 ? divide_up(problem.m, along_m) * along_m : problem.m;
  double operations = 2.0 * real(rows) * real(problem.n) * real(problem.k);
  if (along_m > 0 && along_n > 0 && device.sms.known() && *device.sms.value > 0) {
    const std::int64_t tiles = rows / along_m * divide_up(problem.n, along_n);
    const std::int64_t waves = divide_up(tiles, *device.sms.value);
    operations *= real(waves * *device.sms.value) / real(tiles);
  }
  return operations;
}

double workspace_bytes(const Problem& problem, const Candidate& candidate) {
  return candidate.workspace_bytes_per_m * real(problem.m) +
         candidate.extra_bytes_per_mk / 2.0 * real(problem.m) * real(problem.k) +
         candidate.workspace_bytes_per_nk * real(problem.n) * real(problem.k);
}

ChosenCost cost_on(const Candidate& candidate, const DeviceProfile& device, const Records& records) {
  const auto find = [&](std::string_view kernel) {
    return std::find_if(records.costs.begin(), records.costs.end(),
                        [&](const FittedCost& cost) { return cost.kernel == kernel && cost.device == device.slug; });
  };
  if (const auto own = find(candidate.name); own != records.costs.end()) return {own->params, Basis::model_fitted};
  if (!candidate.stand_in.empty()) {
    if (const auto peer = find(candidate.stand_in); peer != records.costs.end()) {
      CostParams params = peer->params;
      params.unit = candidate.unit;
      params.compute_efficiency *= candidate.stand_in_scale;
      params.source = fmt::format("stand-in {}: {}", candidate.stand_in, peer->params.source);
      if (candidate.stand_in_scale != 1.0)
        params.source += fmt::format("; rate times {:.2f}", candidate.stand_in_scale);
      return {params, Basis::model_assumed};
    }
  }
  return {candidate.cost, Basis::model_assumed};
}

const Measurement* measurement_of(const Problem& problem, const DeviceProfile& device, const Candidate& candidate,
                                  const Records& records) {
  const auto same = [&](const Measurement& measured) {
    Problem there = measured.problem;
    there.acc = problem.acc;
    return measured.kernel == candidate.name && measured.device == device.slug && measured.seconds > 0.0 &&
           measured.digest == candidate.digest && there == problem;
  };
  const auto found = std::find_if(records.measurements.rbegin(), records.measurements.rend(), same);
  return found == records.measurements.rend() ? nullptr : &*found;
}

Estimate estimate(const Problem& problem, const DeviceProfile& device, const Candidate& candidate,
                  const Records& records, bool use_measurements) {
  const ChosenCost cost = cost_on(candidate, device, records);
  Estimate out = model_time(problem, device, candidate, cost.params);
  if (out.basis != Basis::none) out.basis = cost.basis;
  out.source = cost.params.source;
  if (const Measurement* measured = use_measurements ? measurement_of(problem, device, candidate, records) : nullptr) {
    out.seconds = measured->seconds;
    out.basis = Basis::measured;
    out.source = measured->source;
    out.missing.clear();
  }
  return out;
}

}  // namespace select

Estimate model_time(const Problem& problem, const DeviceProfile& device, const Candidate& candidate,
                    const CostParams& cost) {
  Estimate out;
  out.source = cost.source;
  out.bytes = select::bytes_moved(problem, candidate);
  out.operations = select::padded_operations(problem, device, candidate);
  const Fact<double>& bandwidth = device.bandwidth();
  const Fact<double>& peak = device.peak(cost.unit);
  if (!bandwidth.known()) {
    out.missing = "read bandwidth";
  } else if (!peak.known()) {
    out.missing = fmt::format("peak {} rate", name(cost.unit));
  } else if (cost.memory_efficiency <= 0.0 || cost.compute_efficiency <= 0.0) {
    out.missing = "cost parameters of the kernel";
  }
  if (!out.missing.empty()) return out;
  const double memory = out.bytes / (*bandwidth.value * cost.memory_efficiency);
  const double compute = out.operations / (*peak.value * cost.compute_efficiency);
  const double launch = candidate.launches * (device.host ? select::kHostLaunch : select::kGpuLaunch);
  const double longer = std::max(memory, compute);
  const double shorter = std::min(memory, compute);
  const double work = longer * std::pow(1.0 + std::pow(shorter / longer, select::kOverlap), 1.0 / select::kOverlap);
  out.seconds = launch + work;
  out.basis = Basis::model_assumed;
  out.limit = launch > longer ? "launch" : memory >= compute ? "memory" : std::string(name(cost.unit));
  return out;
}

Estimate device_limit(const Problem& problem, const DeviceProfile& device) {
  Candidate ideal;  // reads every operand once, pads nothing
  Estimate out;
  out.source = "roofline of the device's facts";
  out.bytes = select::bytes_moved(problem, ideal);
  out.operations = flops(problem);
  struct Allowed {
    Unit unit;
    Acc acc;
  };
  constexpr std::array kAllowed{Allowed{Unit::fp32, Acc::w4a16}, Allowed{Unit::bf16, Acc::w4a16},
                                Allowed{Unit::fp8, Acc::w4a8}, Allowed{Unit::int8, Acc::w4a8},
                                Allowed{Unit::nvfp4, Acc::w4a4}};
  double best = 0.0;
  for (const Allowed& allowed : kAllowed) {
    const Fact<double>& peak = device.peak(allowed.unit);
    if (allowed.acc <= problem.acc && peak.known() && *peak.value > best) {
      best = *peak.value;
      out.limit = std::string(name(allowed.unit));
    }
  }
  const bool native = device.has(Feature::mma_nvfp4) || device.has(Feature::tcgen05);
  if (!device.bandwidth().known()) {
    out.missing = "read bandwidth";
  } else if (problem.acc == Acc::w4a4 && native && !device.peak(Unit::nvfp4).known()) {
    out.missing = "peak nvfp4 rate";
  } else if (best == 0.0) {
    out.missing = "peak rate";
  }
  if (!out.missing.empty()) {
    out.limit.clear();
    return out;
  }
  const double memory = out.bytes / *device.bandwidth().value;
  const double compute = out.operations / best;
  out.seconds = std::max(memory, compute);
  out.basis = Basis::model_assumed;
  out.limit = memory >= compute ? "memory" : out.limit + " rate";
  return out;
}

}  // namespace tetrad
