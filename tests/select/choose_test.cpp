// The choice itself: ranking, ranges, force and exclude, layouts, and the look-up at run time.
#include <gtest/gtest.h>

#include <cmath>

#include "select/allocations.hpp"
#include "select/fixture.hpp"

namespace tetrad {
namespace {

using test::lab;
using test::problem;
using test::row;

// Fast in memory but slow in arithmetic, and the other way round.
std::vector<Candidate> crossing() {
  Candidate decode = row("decode", 0.9, 0.1);
  Candidate prefill = row("prefill", 0.45, 0.8);
  return {decode, prefill};
}

TEST(Choose, FollowsTheModelAndFindsTheSwitchPoint) {
  const ProblemSet set = problem({1, 1024});
  const Result<Plan> plan = test::plan(crossing(), {}, set);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->choices[0].kernel, "decode");
  EXPECT_EQ(plan->choices[1].kernel, "prefill");
  ASSERT_TRUE(plan->choices[0].m_end);
  const std::int64_t flip = *plan->choices[0].m_end;
  EXPECT_EQ(plan->choices[1].m_begin, flip);
  EXPECT_FALSE(plan->choices[1].m_end);
  // On both sides of the boundary a plan for that m alone agrees.
  EXPECT_EQ(test::plan(crossing(), {}, problem({flip - 1}))->choices[0].kernel, "decode");
  EXPECT_EQ(test::plan(crossing(), {}, problem({flip}))->choices[0].kernel, "prefill");
}

TEST(Choose, TimeIsTheDocumentedFormula) {
  Candidate c = row("c", 0.5, 0.25);
  c.tile = {64, 0, 0, 0};
  c.launches = 2;
  Problem p = problem({16}).base;
  const Estimate e = model_time(p, lab(), c, c.cost);
  const double bytes = 4096.0 * 4096.0 * 0.5625 + 16.0 * 4096 * 2 + 16.0 * 4096 * 2;
  const double operations = 2.0 * 64 * 4096 * 4096;
  EXPECT_DOUBLE_EQ(e.bytes, bytes);
  EXPECT_DOUBLE_EQ(e.operations, operations);
  const double memory = bytes / 0.5e12;
  const double compute = operations / 0.25e14;
  EXPECT_NEAR(e.seconds, 2 * 2.5e-6 + std::cbrt(memory * memory * memory + compute * compute * compute), 1e-12);
}

TEST(Choose, PadsTilesToWholeWaves) {
  Candidate c = row("c");
  c.tile = {128, 128, 64, 4};
  Problem p = problem({1}).base;  // 32 tiles on 100 SMs
  EXPECT_DOUBLE_EQ(model_time(p, lab(), c, c.cost).operations, 2.0 * 128 * 4096 * 4096 * 100 / 32);
  c.swap_ab = true;
  c.tile = {128, 32, 128, 7};
  EXPECT_DOUBLE_EQ(model_time(p, lab(), c, c.cost).operations, 2.0 * 32 * 4096 * 4096 * 100 / 32);
}

TEST(Choose, TiesGoToTheEarlierRow) {
  const Result<Plan> plan = test::plan({row("one"), row("two")});
  EXPECT_EQ(plan->choices[0].kernel, "one");
  EXPECT_EQ(plan->choices[0].considered[1].verdict.reason, Reason::slower);
}

TEST(Choose, MeasurementsBeatTheModelAndCanBeWithheld) {
  Records records;
  Measurement m;
  m.kernel = "two";
  m.device = "lab";
  m.problem = problem().base;
  m.seconds = 1e-6;
  m.digest = "d1";
  records.measurements = {m};
  PlanOptions options;
  EXPECT_EQ(test::plan({row("one"), row("two")}, options, problem(), lab(), records)->choices[0].kernel, "two");
  EXPECT_EQ(test::plan({row("one"), row("two")}, options, problem(), lab(), records)->choices[0].estimate.basis,
            Basis::measured);
  options.use_measurements = false;
  EXPECT_EQ(test::plan({row("one"), row("two")}, options, problem(), lab(), records)->choices[0].kernel, "one");
  options.use_measurements = true;
  records.measurements[0].digest = "older";
  EXPECT_EQ(test::plan({row("one"), row("two")}, options, problem(), lab(), records)->choices[0].kernel, "one");
}

TEST(Choose, FittedCostsComeBeforeStandInsBeforeAssumptions) {
  Candidate c = row("one", 0.1, 0.1);
  c.stand_in = "peer:x";
  c.stand_in_scale = 0.5;
  EXPECT_EQ(test::plan({c})->choices[0].estimate.source, "assumed: test");
  Records records;
  records.costs = {{"peer:x", "lab", {Unit::bf16, 0.5, 0.8, "fitted: x"}}};
  const Estimate stand_in = test::plan({c}, {}, problem(), lab(), records)->choices[0].estimate;
  EXPECT_EQ(stand_in.source, "stand-in peer:x: fitted: x; rate times 0.50");
  EXPECT_EQ(stand_in.basis, Basis::model_assumed);
  EXPECT_DOUBLE_EQ(stand_in.seconds, model_time(problem().base, lab(), c, {Unit::bf16, 0.5, 0.4, ""}).seconds);
  records.costs.push_back({"one", "lab", {Unit::bf16, 0.6, 0.6, "fitted: one"}});
  EXPECT_EQ(test::plan({c}, {}, problem(), lab(), records)->choices[0].estimate.basis, Basis::model_fitted);
  records.costs[1].device = "other";
  EXPECT_EQ(test::plan({c}, {}, problem(), lab(), records)->choices[0].estimate.basis, Basis::model_assumed);
}

TEST(Choose, UnknownRatesAreNamedAndRankLast) {
  DeviceProfile device = lab();
  device.peak_nvfp4.value.reset();
  Candidate native = row("native", 1.0, 1.0);
  native.unit = native.cost.unit = Unit::nvfp4;
  const Result<Plan> plan = test::plan({native, row("known", 0.01, 0.01)}, {}, problem(), device);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->choices[0].kernel, "known");
  EXPECT_EQ(plan->choices[0].considered[0].estimate.missing, "peak nvfp4 rate");
  EXPECT_EQ(plan->choices[0].considered[0].verdict.have, "unknown: peak nvfp4 rate");
  EXPECT_EQ(plan->choices[0].limit_s, 0.0);
  EXPECT_EQ(plan->warnings.size(), 2U);
  device.bandwidth_read.value.reset();
  const Result<Plan> blind = test::plan({row("a"), row("b")}, {}, problem(), device);
  EXPECT_EQ(blind->choices[0].kernel, "a");
  EXPECT_EQ(blind->choices[0].estimate.missing, "read bandwidth");
  EXPECT_NE(to_text(*blind, false).find("read bandwidth is unknown"), std::string::npos);
}

TEST(Choose, ForceWinsOrFailsWithItsVerdict) {
  Candidate small = row("small", 0.9, 0.9);
  small.m_max = 8;
  const std::vector<Candidate> rows{row("first"), small};
  PlanOptions options;
  options.force = "first";
  EXPECT_EQ(test::plan(rows, options)->choices[0].kernel, "first");
  EXPECT_EQ(test::plan(rows, options)->warnings.size(), 1U);
  options.force = "small";
  const Result<Plan> ineligible = test::plan(rows, options, problem({1, 16}));
  ASSERT_FALSE(ineligible);
  EXPECT_EQ(ineligible.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(ineligible.error().id, "TE0502");
  EXPECT_EQ(ineligible.error().what, "small cannot be forced at m 16: TP0401 m_range");
  EXPECT_EQ(ineligible.error().need, "m 1 to 8");
  options.force = "smal";
  const Result<Plan> unknown = test::plan(rows, options);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().id, "TE0501");
  EXPECT_NE(unknown.error().hint.find("small"), std::string::npos);
}

TEST(Choose, ExcludeTakesPatternsAndRefusesThoseThatMatchNothing) {
  PlanOptions options;
  options.exclude = {"fi*"};
  EXPECT_EQ(test::plan({row("first"), row("second")}, options)->choices[0].kernel, "second");
  options.exclude = {"nothing_*"};
  const Result<Plan> plan = test::plan({row("first")}, options);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::usage);
  EXPECT_EQ(plan.error().id, "TE0503");
}

TEST(Choose, AllChoicesShareTheLayoutOfTheLeastTotal) {
  Candidate decode = row("decode", 0.9, 0.05);
  decode.layout = "tiled/1";
  Candidate prefill = row("prefill", 0.5, 0.9);
  const std::vector<Candidate> rows{decode, prefill};
  const Result<Plan> mix = test::plan(rows, {}, problem({1, 4096}));
  EXPECT_EQ(mix->layout, "linear/1");
  EXPECT_EQ(mix->choices[0].kernel, "prefill");
  EXPECT_EQ(mix->choices[0].considered[0].verdict.reason, Reason::layout);
  EXPECT_EQ(test::plan(rows, {}, problem({1}))->layout, "tiled/1");
  PlanOptions options;
  options.layout = "tiled/1";
  EXPECT_EQ(test::plan(rows, options, problem({1, 4096}))->choices[1].kernel, "decode");
}

TEST(Choose, SameInputsGiveTheSamePlan) {
  const ProblemSet set = problem({1, 16, 64, 256});
  EXPECT_EQ(to_json(*test::plan(crossing(), {}, set)), to_json(*test::plan(crossing(), {}, set)));
}

TEST(Lookup, FindsTheRangeWithoutAllocating) {
  Candidate small = row("small", 0.95, 0.01);
  small.m_max = 8;
  std::vector<Candidate> rows = crossing();
  rows.push_back(small);
  rows[1].m_max = 2000;
  rows[0].m_max = 1500;
  const Result<Plan> made = test::plan(rows, {}, problem({1, 16, 1024}));
  ASSERT_TRUE(made);
  const Plan& plan = *made;
  ASSERT_EQ(plan.choices.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(plan.choice_for(plan.choices[i].m), i);
  const long before = test::allocations();
  std::size_t sum = 0;
  for (std::int64_t m = 1; m <= 2000; ++m) {
    const std::size_t i = plan.choice_for(m);
    sum += i;
    if (i >= 3 || m < plan.choices[i].m_begin || (plan.choices[i].m_end && m >= *plan.choices[i].m_end)) {
      ADD_FAILURE() << "m " << m;
    }
  }
  const long after = test::allocations();
  EXPECT_GT(before, 0) << "allocations are not counted";
  EXPECT_EQ(after, before);
  EXPECT_GT(sum, 0U);
  EXPECT_EQ(plan.choice_for(2001), 3U);
  EXPECT_EQ(plan.choice_for(0), 3U);
}

TEST(Lookup, StartsWhereTheFirstKernelStarts) {
  Candidate wide = row("wide");
  wide.m_min = 32;
  const Result<Plan> plan = test::plan({wide}, {}, problem({64}));
  EXPECT_EQ(plan->choices[0].m_begin, 32);
  EXPECT_EQ(plan->choice_for(31), 1U);
  EXPECT_EQ(plan->choice_for(32), 0U);
}

}  // namespace
}  // namespace tetrad
