// Choices pinned by name for every built-in device: a change of heuristics shows as a readable diff.
// TETRAD_BLESS=1 rewrites the files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tetrad/kernels.hpp"
#include "tetrad/plan.hpp"

namespace tetrad {
namespace {

struct Shape {
  std::int64_t n;
  std::int64_t k;
};
constexpr Shape kShapes[] = {{34816, 5120}, {5120, 17408}, {8192, 8192}, {4096, 4096}};
const std::vector<std::int64_t> kM{1, 4, 16, 64, 256, 1024, 4096};

Result<Plan> plan_for(const DeviceProfile& device, const Shape& shape, Acc acc) {
  ProblemSet set;
  set.base.n = shape.n;
  set.base.k = shape.k;
  set.base.acc = acc;
  set.m = kM;
  PlanOptions options;
  options.question = Question::if_built;
  return make_plan(set, device, Software{}, kernel_candidates(), known_records(), options);
}

std::string table(const DeviceProfile& device) {
  std::string out = fmt::format("{}: choices if every row were built\n", device.slug);
  for (const Acc acc : {Acc::w4a4, Acc::w4a16}) {
    for (const Shape& shape : kShapes) {
      out += fmt::format("\nn{} k{} acc={}\n", shape.n, shape.k, name(acc));
      const Result<Plan> plan = plan_for(device, shape, acc);
      if (!plan) return out + plan.error().what;
      for (const Choice& choice : plan->choices) {
        out += fmt::format("  m{:<5} from {:<5} {}\n", choice.m, choice.m_begin,
                           choice.kernel.empty() ? "none" : choice.kernel);
      }
    }
  }
  return out;
}

TEST(Golden, ChoicesPerDeviceShapeAndM) {
  const std::string folder = std::string(TETRAD_SOURCE_DIR) + "/tests/select/golden/";
  for (const DeviceProfile& device : known_devices()) {
    const std::string now = table(device);
    const std::string path = folder + device.slug + ".txt";
    if (std::getenv("TETRAD_BLESS") != nullptr) {
      std::ofstream(path) << now;
      continue;
    }
    std::ifstream in(path);
    std::stringstream pinned;
    pinned << in.rdbuf();
    EXPECT_EQ(now, pinned.str()) << path;
  }
}

TEST(Golden, GB10DecodesWithW4A16AndPrefillsWithW4A4) {
  const Result<DeviceProfile> gb10 = find_device("gb10");
  ASSERT_TRUE(gb10);
  const Result<Plan> plan = plan_for(*gb10, {34816, 5120}, Acc::w4a4);
  ASSERT_TRUE(plan);
  for (const Choice& choice : plan->choices) {
    const KernelDescriptor* chosen = find_kernel(choice.kernel);
    ASSERT_NE(chosen, nullptr) << choice.m;
    EXPECT_EQ(chosen->candidate.acc, choice.m <= 16 ? Acc::w4a16 : Acc::w4a4) << "m " << choice.m;
  }
}

TEST(Golden, EveryDeviceLimitIsBelowEveryEstimate) {
  for (const DeviceProfile& device : known_devices()) {
    for (const Shape& shape : kShapes) {
      const Result<Plan> plan = plan_for(device, shape, Acc::w4a4);
      ASSERT_TRUE(plan);
      for (const Choice& choice : plan->choices) {
        if (choice.limit_s > 0.0 && choice.estimate.seconds > 0.0) {
          EXPECT_LE(choice.limit_s, choice.estimate.seconds)
              << device.slug << " " << choice.kernel << " m " << choice.m;
        }
      }
    }
  }
}

TEST(Golden, DeclaredRowsSayWhereTheirNumbersComeFrom) {
  for (const Candidate& c : kernel_candidates()) {
    EXPECT_FALSE(c.cost.source.empty()) << c.name;
    EXPECT_TRUE(parse_kernel_name(c.name)) << c.name;
    if (c.target.kind == Target::Kind::host) continue;
    EXPECT_FALSE(c.smem_source.empty()) << c.name;
    EXPECT_TRUE(c.smem_bytes == 0 || c.tile.stages > 0) << c.name;
  }
}

}  // namespace
}  // namespace tetrad
