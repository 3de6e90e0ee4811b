// Computed sizes against sizes that the compiler gave for the real templates.
#include "tetrad/tiles.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tetrad {
namespace {

TileRequest request_of(const nlohmann::json& row) {
  TileRequest request;
  request.m = row["tile"][0];
  request.n = row["tile"][1];
  request.k = row["tile"][2];
  request.grouped = row["kind"] == "grouped";
  request.schedule = row["schedule"] == "pingpong" ? TileSchedule::pingpong : TileSchedule::cooperative;
  request.epilogue = row["label"] == "HEAD C=bf" ? TileEpilogue::c : TileEpilogue::void_c;
  return request;
}

std::int64_t sum_of(const TileAccount& account, std::initializer_list<const char*> names) {
  std::int64_t bytes = 0;
  for (const TileMember& member : account.members) {
    for (const char* wanted : names) bytes += member.name == wanted ? member.bytes : 0;
  }
  return bytes;
}

TEST(Sm120Tiles, EqualTheCompiledSizes) {
  std::ifstream file(std::string(TETRAD_TEST_DATA) + "/tiles/sm120.json");
  const nlohmann::json data = nlohmann::json::parse(file);
  int compared = 0;
  for (const nlohmann::json& row : data["rows"]) {
    const TileRequest request = request_of(row);
    const std::string label = row.dump();
    const Result<TileFit> fit = sm120_tile_fit(request);
    if (request.m % 128 != 0) {
      ASSERT_FALSE(fit) << label;
      EXPECT_NE(fit.error().what.find("degenerates"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(fit) << label << fit.error().what;
    EXPECT_EQ(fit->cutlass.stages, row["stages"].get<int>()) << label;
    EXPECT_EQ(fit->cutlass.total, row["shared_storage_bytes"].get<std::int64_t>()) << label;
    EXPECT_EQ(fit->carveout, row["epilogue_carveout"].get<std::int64_t>()) << label;
    EXPECT_EQ(sum_of(fit->cutlass, {"epilogue tile"}), row["epilogue_tensor_bytes"].get<std::int64_t>()) << label;
    EXPECT_EQ(sum_of(fit->cutlass, {"scheduler barriers", "mainloop barriers", "epilogue load barriers",
                                    "load order barrier", "math warp-group order barrier"}),
              row["pipelines_bytes"].get<std::int64_t>())
        << label;
    ++compared;
  }
  EXPECT_EQ(compared, 48);
}

struct Known {
  int m, n, k;
  TileEpilogue epilogue;
  bool swap_ab;
  DType out;
  bool grouped;
  int stages;
  std::int64_t total;
};

class Sm120Published : public testing::TestWithParam<Known> {};

TEST_P(Sm120Published, StagesAndBytes) {
  const Known& known = GetParam();
  TileRequest request;
  request.m = known.m;
  request.n = known.n;
  request.k = known.k;
  request.epilogue = known.epilogue;
  request.swap_ab = known.swap_ab;
  request.out = known.out;
  request.grouped = known.grouped;
  const Result<TileFit> fit = sm120_tile_fit(request);
  ASSERT_TRUE(fit) << fit.error().what;
  EXPECT_EQ(fit->cutlass.stages, known.stages);
  EXPECT_EQ(fit->cutlass.total, known.total);
}

constexpr auto kFin = TileEpilogue::finalize;
constexpr auto kC = TileEpilogue::c;
constexpr auto kVoid = TileEpilogue::void_c;
constexpr auto kBf = DType::bf16;
INSTANTIATE_TEST_SUITE_P(
    Rows, Sm120Published,
    testing::Values(
        Known{128, 128, 128, kFin, false, kBf, true, 4, 93184}, Known{128, 128, 128, kFin, true, kBf, true, 4, 93184},
        Known{128, 128, 256, kFin, false, kBf, true, 2, 93184}, Known{128, 128, 256, kFin, true, kBf, true, 2, 93184},
        Known{256, 128, 128, kFin, false, kBf, true, 3, 102400}, Known{256, 128, 128, kFin, true, kBf, true, 2, 74752},
        Known{128, 256, 128, kFin, false, kBf, true, 3, 102400}, Known{128, 256, 128, kFin, true, kBf, true, 2, 74752},
        Known{128, 64, 128, kFin, false, kBf, true, 5, 91136}, Known{128, 64, 128, kFin, true, kBf, true, 5, 91136},
        Known{128, 64, 256, kFin, false, kBf, true, 2, 76800}, Known{128, 64, 256, kFin, true, kBf, true, 2, 76800},
        Known{128, 32, 128, kFin, false, kBf, true, 6, 93184}, Known{128, 32, 128, kFin, true, kBf, true, 6, 93184},
        Known{128, 32, 256, kFin, false, kBf, true, 3, 93184}, Known{128, 32, 256, kFin, true, kBf, true, 3, 93184},
        Known{128, 64, 128, kC, false, kBf, true, 6, 101376}, Known{128, 32, 128, kC, false, kBf, true, 7, 101376},
        Known{128, 16, 128, kC, false, kBf, true, 8, 99328}, Known{128, 8, 128, kC, false, kBf, true, 8, 93184},
        Known{128, 8, 128, kVoid, false, kBf, true, 9, 102400},
        Known{128, 256, 128, kC, false, DType::f32, true, 2, 82944},
        Known{128, 128, 256, kVoid, false, DType::f32, false, 2, 92160},
        Known{256, 128, 128, kVoid, false, DType::f32, false, 2, 73728}));

TEST(Sm120Tiles, TheTileOfTheReportFitsWithTwoStages) {
  TileRequest request;
  request.n = 256;
  request.grouped = true;
  request.epilogue = TileEpilogue::finalize;
  const Result<TileFit> fit = sm120_tile_fit(request);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->cutlass.total - request.limit, 1024);
  EXPECT_EQ(fit->fit.stages, 2);
  EXPECT_EQ(fit->fit.total, 74752);
  EXPECT_EQ(fit->blocks_per_sm, 1);
}

TEST(Sm120Tiles, MembersNeverOverlapAndSumUp) {
  for (const int m : {128, 256}) {
    for (const int n : {8, 16, 32, 64, 128, 256}) {
      for (const bool grouped : {false, true}) {
        TileRequest request;
        request.m = m;
        request.n = n;
        request.grouped = grouped;
        for (int stages = 2; stages < 9; ++stages) {
          const Result<TileAccount> account = sm120_tile_account(request, stages);
          ASSERT_TRUE(account);
          std::int64_t end = 0;
          std::int64_t sum = 0;
          for (const TileMember& member : account->members) {
            EXPECT_GE(member.offset, end);
            EXPECT_EQ(member.offset % member.align, 0);
            end = member.offset + member.bytes;
            sum += member.bytes;
          }
          EXPECT_LE(end, account->total);
          EXPECT_EQ(sum + account->padding, account->total);
        }
      }
    }
  }
}

TEST(Sm120Tiles, VersionsDecideWhatIsReservedAndBuilt) {
  TileRequest request;
  request.grouped = true;
  request.cutlass = *parse_cutlass_version("4.4.1");
  EXPECT_EQ(sm120_tile_fit(request)->reserved, 0);
  request.cutlass = *parse_cutlass_version("4.4.2");
  EXPECT_EQ(sm120_tile_fit(request)->reserved, 432);
  request.n = 16;
  EXPECT_FALSE(sm120_tile_fit(request));
  request.cutlass = *parse_cutlass_version("4.6");
  EXPECT_TRUE(sm120_tile_fit(request));
  for (const char* text : {"", "4", "4.", "4.x", "-1.0", "4.4.2.1", "4.4.2 "})
    EXPECT_FALSE(parse_cutlass_version(text)) << text;
}

TEST(Sm120Tiles, RefusesWhatCannotBeBuilt) {
  for (const auto& [m, n, k] :
       {std::array{64, 128, 128}, {192, 128, 128}, {128, 24, 128}, {128, 128, 32}, {128, 256, 256}}) {
    TileRequest request;
    request.m = m;
    request.n = n;
    request.k = k;
    const Result<TileFit> fit = sm120_tile_fit(request);
    ASSERT_FALSE(fit) << m << 'x' << n << 'x' << k;
    EXPECT_EQ(fit.error().kind, ErrorKind::unavailable);
    EXPECT_FALSE(fit.error().need.empty());
  }
}

}  // namespace
}  // namespace tetrad
