// THE list of kernels.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/rows.hpp"
#include "kernels/declared.hpp"
#include "kernels/digests.hpp"
#include "tetrad/kernels.hpp"

namespace tetrad {
namespace {

// What the rows of this build share: any dense type in and out, groups, bias.
Candidate host_row(std::string name, Acc acc, CostParams cost) {
  Candidate c;
  c.name = std::move(name);
  c.acc = acc;
  c.unit = Unit::fp32;
  c.a_types = {DType::f32, DType::bf16, DType::f16};
  c.out_types = {DType::f32, DType::bf16, DType::f16};
  c.grouped = true;
  c.bias = true;
  c.accuracy = acc == Acc::w4a16 ? Accuracy::fp32_sum : Accuracy::rounded;
  c.cost = std::move(cost);
  return c;
}

KernelDescriptor built(Candidate candidate, BindFunction bind) {
  KernelDescriptor row{std::move(candidate), bind, ""};
  row.digest = kernels::digest_of(row.candidate.name);
  row.candidate.built = true;
  row.candidate.digest = row.digest;
  return row;
}

std::vector<KernelDescriptor> make_table() {
  // Shares of the host's read bandwidth and of the unit's rate; that CPU's int8 rate is 4.0 times its fp32 rate.
  const std::string assumed = "assumed: processor time of trial runs on one Zen 3 core in use by others, 2026-11-29";
  // Medians over the three shapes on two threads: read share at M = 1, fp32 share at M >= 64.
  const std::string measured = "measured: bench/results/host-epyc-zen3/2026-11-30.json";
  std::vector<KernelDescriptor> table;
  Candidate int8 = host_row("cpu_w4a8_int8", Acc::w4a8, {Unit::int8, 0.46, 0.24, measured});
  int8.unit = Unit::int8;
  int8.extra_bytes_per_mk = 2.0;
  table.push_back(built(std::move(int8), kernels::bind_cpu_w4a8_int8));
  Candidate exact = host_row("cpu_w4a16_f32", Acc::w4a16, {Unit::fp32, 0.25, 0.56, measured});
  exact.m_invariant = false;  // one and two rows sum within blocks before the scale
  exact.extra_bytes_per_mk = 4.0;
  table.push_back(built(std::move(exact), kernels::bind_cpu_w4a16_f32));
  Candidate emulated = host_row("cpu_w4a4_emulated", Acc::w4a4, {Unit::fp32, 0.25, 0.53, measured});
  emulated.m_invariant = false;
  emulated.needs_input_scale = true;
  emulated.extra_bytes_per_mk = 4.0;
  table.push_back(built(std::move(emulated), kernels::bind_cpu_w4a4_emulated));
  for (Candidate& candidate : declared_candidates()) table.push_back({std::move(candidate), nullptr, ""});
  Candidate reference = host_row("ref_w4a16_f64", Acc::w4a16, {Unit::fp32, 0.02, 0.02, assumed});
  reference.reference = true;
  reference.accuracy = Accuracy::exact_sum;
  table.push_back(built(std::move(reference), kernels::bind_ref_w4a16_f64));
  return table;
}

Error bad_name(std::string_view text, std::string need) {
  return Error{ErrorKind::usage,  "TE0604", "not a kernel name", "", std::move(need),
               std::string(text), {},       "tetrad kernels"};
}

bool is_tile(std::string_view text) {
  int parts = 1;
  bool digit = false;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      digit = true;
    } else if (c == 'x' && digit) {
      ++parts;
      digit = false;
    } else {
      return false;
    }
  }
  return digit && parts == 3;
}

}  // namespace

std::span<const KernelDescriptor> kernel_table() {
  static const std::vector<KernelDescriptor> table = make_table();
  return table;
}

std::span<const Candidate> kernel_candidates() {
  static const std::vector<Candidate> candidates = [] {
    std::vector<Candidate> all;
    for (const KernelDescriptor& row : kernel_table()) all.push_back(row.candidate);
    return all;
  }();
  return candidates;
}

const KernelDescriptor* find_kernel(std::string_view name) {
  const auto table = kernel_table();
  const auto it =
      std::find_if(table.begin(), table.end(), [&](const KernelDescriptor& row) { return row.candidate.name == name; });
  return it == table.end() ? nullptr : &*it;
}

Result<KernelName> parse_kernel_name(std::string_view name) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('_', begin), name.size());
    parts.emplace_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() < 3 || std::any_of(parts.begin(), parts.end(), [](const std::string& p) { return p.empty(); }))
    return bad_name(name, "<unit>_<acc>_<technique>[_<tile>]");
  constexpr std::array<std::string_view, 3> kUnits = {"cpu", "ref", "vendor"};
  constexpr std::array<std::string_view, 3> kAccs = {"w4a16", "w4a8", "w4a4"};
  const bool is_gpu = parts[0].size() > 2 && parts[0].starts_with("sm") &&
                      parts[0].find_first_not_of("0123456789", 2) == std::string::npos;
  if (!is_gpu && std::find(kUnits.begin(), kUnits.end(), parts[0]) == kUnits.end())
    return bad_name(name, "a unit: cpu, ref, vendor or sm<number>");
  if (std::find(kAccs.begin(), kAccs.end(), parts[1]) == kAccs.end()) return bad_name(name, "w4a16, w4a8 or w4a4");
  KernelName result{parts[0], parts[1], "", ""};
  if (parts.size() > 3 && is_tile(parts.back())) {
    result.tile = parts.back();
    parts.pop_back();
  }
  result.technique = parts[2];
  for (std::size_t i = 3; i < parts.size(); ++i) result.technique += "_" + parts[i];
  return result;
}

}  // namespace tetrad
