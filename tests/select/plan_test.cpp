// Verdicts: each reason can be produced, in the documented order.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "select/fixture.hpp"

namespace tetrad {
namespace {

using test::lab;
using test::row;

// What one case spoils, and what the first kernel's verdict must then be.
struct Case {
  Reason reason;
  std::string need;
  std::string have;
  std::function<void(Candidate&, ProblemSet&, DeviceProfile&, PlanOptions&, Records&)> spoil;
};

using C = Candidate;
using P = ProblemSet;
using D = DeviceProfile;
using O = PlanOptions;
using R = Records;

EvidenceRecord probe(std::string failure) {
  EvidenceRecord r;
  r.kernel = "first";
  r.evidence = Evidence::probed;
  r.digest = "d1";
  r.device = "lab";
  r.failure = std::move(failure);
  return r;
}

std::vector<Case> cases() {
  return {
      {Reason::eligible, "", "", [](C&, P&, D&, O&, R&) {}},
      {Reason::excluded, "not excluded", "--exclude fir*", [](C&, P&, D&, O& o, R&) { o.exclude = {"fir*"}; }},
      {Reason::not_forced, "--force first", "--force second", [](C&, P&, D&, O& o, R&) { o.force = "second"; }},
      {Reason::reference_only, "to be forced", "not forced", [](C& c, P&, D&, O&, R&) { c.reference = true; }},
      {Reason::not_built, "built code", "declared", [](C& c, P&, D&, O&, R&) { c.built = false; }},
      {Reason::unknown_fact, "shared memory per block", "unknown",
       [](C&, P&, D& d, O&, R&) { d.smem_per_block_optin.value.reset(); }},
      {Reason::target_mismatch, "90a", "sm_120",
       [](C& c, P&, D&, O&, R&) {
         c.target = {Target::Kind::arch, {9, 0}};
       }},
      {Reason::target_mismatch, "cpu", "sm_120", [](C& c, P&, D&, O&, R&) { c.target = {}; }},
      {Reason::missing_feature, "tma, wgmma", "not on this device",
       [](C& c, P&, D&, O&, R&) {
         c.features = {Feature::cp_async, Feature::tma, Feature::wgmma};
       }},
      {Reason::shared_memory, "102400 B", "101376 B", [](C& c, P&, D&, O&, R&) { c.smem_bytes = 102400; }},
      {Reason::activation_type, "bf16", "f32", [](C&, P& p, D&, O&, R&) { p.base.a = DType::f32; }},
      {Reason::weight_type, "nvfp4", "fp8", [](C&, P& p, D&, O&, R&) { p.base.w = DType::fp8; }},
      {Reason::output_type, "bf16", "f16", [](C&, P& p, D&, O&, R&) { p.base.out = DType::f16; }},
      {Reason::accuracy, "acc=w4a4", "acc=w4a8",
       [](C& c, P& p, D&, O&, R&) {
         c.acc = Acc::w4a4;
         p.base.acc = Acc::w4a8;
       }},
      {Reason::input_scale, "a static activation scale", "none",
       [](C& c, P&, D&, O& o, R&) {
         c.needs_input_scale = true;
         o.has_input_scale = false;
       }},
      {Reason::layout, "linear/1", "tiled/2", [](C&, P&, D&, O& o, R&) { o.layout = "tiled/2"; }},
      {Reason::m_range, "m 1 to 8", "m 16", [](C& c, P&, D&, O&, R&) { c.m_max = 8; }},
      {Reason::m_range, "m >= 32", "m 16", [](C& c, P&, D&, O&, R&) { c.m_min = 32; }},
      {Reason::n_multiple, "n a multiple of 3", "n 4096", [](C& c, P&, D&, O&, R&) { c.n_multiple = 3; }},
      {Reason::k_multiple, "k a multiple of 48", "k 4096", [](C& c, P&, D&, O&, R&) { c.k_multiple = 48; }},
      {Reason::grouped, "groups 1", "groups 8", [](C&, P& p, D&, O&, R&) { p.base.groups = 8; }},
      {Reason::bias, "no bias", "bias", [](C&, P& p, D&, O&, R&) { p.base.bias = true; }},
      {Reason::workspace, "1600 B", "1599 B",
       [](C& c, P&, D&, O& o, R&) {
         c.workspace_bytes_per_m = 100.0;
         o.workspace_limit = 1599;
       }},
      {Reason::determinism, "the same bits twice", "order of sums varies",
       [](C& c, P&, D&, O& o, R&) {
         c.deterministic = false;
         o.deterministic = true;
       }},
      {Reason::not_probed, "a probe on this device", "built", [](C&, P&, D&, O& o, R&) { o.accept_built = false; }},
      {Reason::probe_failed, "a passed probe", "illegal memory access",
       [](C&, P&, D&, O&, R& r) { r.evidence = {probe("illegal memory access")}; }},
      {Reason::slower, "below 17.8 us", "86.0 us", [](C& c, P&, D&, O&, R&) { c.cost.memory_efficiency = 0.1155; }},
  };
}

TEST(Verdict, EveryReasonCanBeProduced) {
  std::set<Reason> seen;
  for (const Case& c : cases()) {
    Candidate first = row("first", 0.8, 0.8);
    Candidate second = row("second", 0.65, 0.65);
    ProblemSet problem = test::problem();
    DeviceProfile device = lab();
    PlanOptions options;
    Records records;
    c.spoil(first, problem, device, options, records);
    const Result<Plan> plan = test::plan({first, second}, options, problem, device, records);
    ASSERT_TRUE(plan) << name(c.reason) << ": " << plan.error().what;
    const Considered& considered = plan->choices.at(0).considered.at(0);
    EXPECT_EQ(considered.kernel, "first");
    EXPECT_EQ(considered.verdict.reason, c.reason) << name(c.reason) << " but " << name(considered.verdict.reason);
    if (c.reason != Reason::slower) {
      EXPECT_EQ(considered.verdict.need, c.need);
      EXPECT_EQ(considered.verdict.have, c.have);
    } else {
      EXPECT_EQ(considered.verdict.need.rfind("below ", 0), 0U);
      EXPECT_EQ(plan->choices[0].kernel, "second");
    }
    seen.insert(c.reason);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(Reason::slower) + 1) << "a reason has no case";
}

TEST(Verdict, IdsAreDistinctAndInOrder) {
  std::string last;
  for (int i = 0; i <= static_cast<int>(Reason::slower); ++i) {
    const std::string current(id(static_cast<Reason>(i)));
    EXPECT_LT(last, current);
    EXPECT_FALSE(name(static_cast<Reason>(i)).empty());
    last = current;
  }
}

TEST(Verdict, AnUnknownFactGivesWayToAnyOtherNo) {
  DeviceProfile device = lab();
  device.smem_per_block_optin.value.reset();
  Candidate both = row("both");
  both.m_max = 8;
  const Result<Plan> plan = test::plan({both, row("only")}, {}, test::problem(), device);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->choices[0].considered[0].verdict.reason, Reason::m_range);
  EXPECT_EQ(plan->choices[0].considered[1].verdict.reason, Reason::unknown_fact);
  EXPECT_TRUE(plan->choices[0].kernel.empty());
  ASSERT_FALSE(plan->warnings.empty());
  EXPECT_NE(plan->warnings[0].find("shared memory per block is unknown"), std::string::npos);
}

TEST(Verdict, AFailedProbeOfOtherCodeDoesNotCount) {
  Records records;
  records.evidence = {probe("hang")};
  records.evidence[0].digest = "older";
  const Result<Plan> plan = test::plan({row("first")}, {}, test::problem(), lab(), records);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->choices[0].kernel, "first");
}

TEST(Question, IfBuiltIgnoresWhetherCodeIsThere) {
  Candidate declared = row("declared");
  declared.built = false;
  declared.digest.clear();
  PlanOptions options;
  EXPECT_TRUE(test::plan({declared}, options)->choices[0].kernel.empty());
  options.question = Question::if_built;
  const Result<Plan> plan = test::plan({declared}, options);
  EXPECT_EQ(plan->choices[0].kernel, "declared");
  EXPECT_EQ(plan->choices[0].evidence, Evidence::declared);
}

TEST(Text, FitsInAHundredColumnsAndSaysWhy) {
  Candidate slow = row("slow", 0.1, 0.1);
  Candidate large = row("large");
  large.smem_bytes = 102400;
  const Result<Plan> plan = test::plan({row("fast"), slow, large}, {}, test::problem({1, 64, 4096}));
  ASSERT_TRUE(plan);
  for (const bool verbose : {false, true}) {
    const std::string text = to_text(*plan, verbose);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_LE(end - at, 100U) << text.substr(at, end - at);
      at = end + 1;
    }
    EXPECT_NE(text.find("TP0203 shared_memory"), std::string::npos);
    EXPECT_NE(text.find("102400 B"), std::string::npos);
    EXPECT_NE(text.find("TP0601 slower"), std::string::npos);
  }
  const std::string json = to_json(*plan);
  EXPECT_NE(json.find("\"schema\": \"tetrad.plan/1.0\""), std::string::npos);
  EXPECT_NE(json.find("\"reason\": \"shared_memory\""), std::string::npos);
}

}  // namespace
}  // namespace tetrad
