// The cost model against measurements that it was not fitted to.
#include "tetrad/fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "select/fixture.hpp"

namespace tetrad {
namespace {

FitReport fit(const char* device) {
  Result<FitReport> report = fit_costs(*find_device(device), peer_candidates(), known_records().measurements);
  EXPECT_TRUE(report) << report.error().what;
  return std::move(*report);
}

class Fit : public testing::TestWithParam<const char*> {};

TEST_P(Fit, WithheldMeasurementsArePredictedWithin20PercentOnAverage) {
  const FitReport report = fit(GetParam());
  std::size_t judged = 0;
  double sum = 0.0;
  for (const FitRow& row : report.rows) {
    const std::int64_t m = row.measurement.problem.m;
    EXPECT_EQ(row.fitted, m == 1 || m == 64 || m == 1024);
    EXPECT_EQ(row.apart, row.measurement.kernel == "peer:w4a16-cutedsl" && m == 4096);
    if (row.fitted || row.apart) continue;
    ++judged;
    sum += std::abs(row.error);
  }
  EXPECT_GE(judged, 11U);
  EXPECT_NEAR(report.mean_error, sum / static_cast<double>(judged), 1e-12);
  EXPECT_LT(report.mean_error, 0.20);
  EXPECT_LE(report.mean_error, std::abs(report.worst_error));
}

TEST_P(Fit, StoredCostsAreTheFit) {
  for (const FittedCost& cost : fit(GetParam()).costs) {
    const auto& stored = known_records().costs;
    const auto found = std::find_if(stored.begin(), stored.end(), [&](const FittedCost& s) {
      return s.kernel == cost.kernel && s.device == cost.device;
    });
    ASSERT_NE(found, stored.end()) << cost.kernel;
    EXPECT_EQ(found->params.unit, cost.params.unit);
    EXPECT_NEAR(found->params.memory_efficiency, cost.params.memory_efficiency, 2e-4) << cost.kernel;
    EXPECT_NEAR(found->params.compute_efficiency, cost.params.compute_efficiency, 2e-4) << cost.kernel;
  }
}

TEST_P(Fit, ThePageShowsTheFit) {
  std::ifstream in(std::string(TETRAD_SOURCE_DIR) + "/docs/cost-model.md");
  std::stringstream page;
  page << in.rdbuf();
  const std::string table = to_markdown(fit(GetParam()), *find_device(GetParam()));
  EXPECT_NE(page.str().find(table), std::string::npos)
      << "docs/cost-model.md is stale: replace its table by the output of tetrad-fit " << GetParam() << " --markdown";
}

INSTANTIATE_TEST_SUITE_P(Devices, Fit, testing::Values("gb10", "h200"));

TEST(FitModel, RecoversTheEfficienciesThatMadeTheData) {
  const DeviceProfile device = test::lab();
  std::vector<Candidate> peers{test::row("a"), test::row("b")};
  const CostParams truth[] = {{Unit::bf16, 0.8, 0.3, ""}, {Unit::bf16, 0.4, 0.6, ""}};
  std::vector<Measurement> data;
  for (const std::int64_t m : {1, 64, 256, 1024}) {
    for (std::size_t i = 0; i < 2; ++i) {
      Measurement measured;
      measured.kernel = peers[i].name;
      measured.device = "lab";
      measured.problem = test::problem({m}).base;
      measured.seconds = model_time(measured.problem, device, peers[i], truth[i]).seconds;
      data.push_back(measured);
    }
  }
  const Result<FitReport> report = fit_costs(device, peers, data);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->pinned.empty());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(report->costs[i].params.memory_efficiency, truth[i].memory_efficiency, 1e-3);
    EXPECT_NEAR(report->costs[i].params.compute_efficiency, truth[i].compute_efficiency, 1e-3);
  }
  EXPECT_LT(report->mean_error, 1e-3);
}

TEST(FitModel, RefusesWhatItCannotFit) {
  const std::vector<Candidate> peers{test::row("a")};
  Measurement m;
  m.kernel = "unseen";
  m.device = "lab";
  m.problem = test::problem({1}).base;
  m.seconds = 1e-5;
  EXPECT_FALSE(fit_costs(test::lab(), peers, std::vector<Measurement>{}));
  EXPECT_FALSE(fit_costs(test::lab(), peers, std::vector<Measurement>{m}));
  m.kernel = "a";
  DeviceProfile blind = test::lab();
  blind.bandwidth_read.value.reset();
  EXPECT_FALSE(fit_costs(blind, peers, std::vector<Measurement>{m}));
}

}  // namespace
}  // namespace tetrad
