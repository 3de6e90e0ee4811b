// Plan::choice_for over the ranges of a real plan, and make_plan itself.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>

#include "tetrad/kernels.hpp"
#include "tetrad/plan.hpp"

namespace {

tetrad::Result<tetrad::Plan> plan_of(std::int64_t values) {
  tetrad::ProblemSet set;
  set.base.n = 34816;
  set.base.k = 5120;
  for (std::int64_t i = 0; i < values; ++i) set.m.push_back(1 + i * 4096 / values);
  tetrad::PlanOptions options;
  options.question = tetrad::Question::if_built;
  return tetrad::make_plan(set, *tetrad::find_device("gb10"), tetrad::Software{}, tetrad::kernel_candidates(),
                           tetrad::known_records(), options);
}

// Argument: number of ranges. The values of m are spread, so that branches are not learned.
void choice_for(benchmark::State& state) {
  const auto plan = plan_of(state.range(0));
  std::array<std::int64_t, 1024> m{};
  std::uint64_t seed = 1;
  for (auto& value : m) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    value = 1 + static_cast<std::int64_t>((seed >> 33) % 4096);
  }
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(plan->choice_for(m[i++ % m.size()]));
}
BENCHMARK(choice_for)->Arg(1)->Arg(6)->Arg(64)->Arg(256);

void make_plan(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(plan_of(state.range(0)));
}
BENCHMARK(make_plan)->Arg(6)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
