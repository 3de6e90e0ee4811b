// A device and a candidate that pass every check, to be spoiled one field at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tetrad/candidate.hpp"
#include "tetrad/device.hpp"
#include "tetrad/plan.hpp"

namespace tetrad::test {

template <class T>
Fact<T> fact(T value) {
  Fact<T> out;
  out.value = value;
  out.origin = Origin::data_file;
  out.source = "test";
  return out;
}

// 12.0, 100 SMs, 1 TB/s, 100 TFLOP/s bf16, 1 PFLOP/s nvfp4.
inline DeviceProfile lab() {
  DeviceProfile d;
  d.name = "Lab";
  d.slug = "lab";
  d.cc = {12, 0};
  d.sms = fact<std::int64_t>(100);
  d.smem_per_block_optin = fact<std::int64_t>(101376);
  d.bandwidth_read = fact(1e12);
  d.peak_bf16 = fact(1e14);
  d.peak_fp8 = fact(2e14);
  d.peak_nvfp4 = fact(1e15);
  d.features = {Feature::cp_async, Feature::mma_bf16, Feature::mma_nvfp4};
  return d;
}

inline Candidate row(std::string name, double memory = 0.5, double compute = 0.5) {
  Candidate c;
  c.name = std::move(name);
  c.target = {Target::Kind::family, {12, 0}};
  c.unit = Unit::bf16;
  c.a_types = {DType::bf16};
  c.out_types = {DType::bf16};
  c.built = true;
  c.digest = "d1";
  c.smem_bytes = 50000;
  c.cost = {Unit::bf16, memory, compute, "assumed: test"};
  return c;
}

inline ProblemSet problem(std::vector<std::int64_t> m = {16}, std::int64_t n = 4096, std::int64_t k = 4096) {
  ProblemSet set;
  set.base.n = n;
  set.base.k = k;
  set.base.m = m.front();
  set.m = std::move(m);
  return set;
}

inline Result<Plan> plan(const std::vector<Candidate>& candidates, const PlanOptions& options = {},
                         const ProblemSet& what = problem(), const DeviceProfile& device = lab(),
                         const Records& records = {}) {
  return make_plan(what, device, Software{}, candidates, records, options);
}

}  // namespace tetrad::test
