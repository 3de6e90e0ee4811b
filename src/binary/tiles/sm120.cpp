#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "tetrad/tiles.hpp"

namespace tetrad {
namespace {

constexpr std::int64_t kBudget = 101376;   // sm120_smem_capacity_bytes, CUTLASS 3.9 to 4.7
constexpr std::int64_t kBarrierPair = 16;  // a full and an empty barrier
constexpr std::int64_t kTensorMap = 128;
constexpr std::int64_t kMainloopAlign = 1024;
constexpr std::int64_t kSmemReserved = 1024;  // per block, kept by CUDA
constexpr std::int64_t kSmemGranularity = 128;
constexpr int kThreads = 384;  // 8 MMA warps and a producer warpgroup
constexpr int kThreadsPerSm = 1536;
constexpr std::int64_t kRegistersPerBlock = 384LL * 168;  // 65536 / 384 rounded down to a multiple of 8
constexpr std::int64_t kRegistersPerSm = 65536;
constexpr CutlassVersion kReservesScheduler{4, 4, 2};
constexpr CutlassVersion kNarrowTiles{4, 5, 0};  // n 32 and 64
constexpr CutlassVersion kTinyTiles{4, 6, 0};    // n 8 and 16
constexpr CutlassVersion kFirst{3, 9, 0};

std::int64_t round_up(std::int64_t value, std::int64_t align) { return (value + align - 1) / align * align; }

Error impossible(const TileRequest& request, std::string what, std::string need, std::string have) {
  return {ErrorKind::unavailable,
          "TE0701",
          std::move(what),
          fmt::format("tile {}x{}x{}", request.m, request.n, request.k),
          std::move(need),
          std::move(have),
          {},
          {}};
}

bool any_of(int value, std::initializer_list<int> allowed) {
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

Status check(const TileRequest& r) {
  if (r.cutlass < kFirst) {
    return impossible(r, "this CUTLASS has no SM120 block-scaled kernels", "3.9 or newer",
                      fmt::format("{}.{}.{}", r.cutlass.major, r.cutlass.minor, r.cutlass.patch));
  }
  if (r.m == 64 || r.m == 192) {
    // The scale factors of A come in blocks of 128 rows: 64 / 128 = 0 blocks, 192 / 128 = 1; both build silently.
    return impossible(r, "the scale-factor layout of A degenerates for this m", "m of 128 or 256",
                      fmt::format("m {}: {} whole blocks of 128 rows", r.m, r.m / 128));
  }
  if (!any_of(r.m, {128, 256})) return impossible(r, "no such tile", "m of 128 or 256", fmt::format("m {}", r.m));
  if (!any_of(r.n, {8, 16, 32, 64, 128, 256})) {
    return impossible(r, "no such tile", "n of 8, 16, 32, 64, 128 or 256", fmt::format("n {}", r.n));
  }
  if (!any_of(r.k, {64, 128, 256})) {
    return impossible(r, "no such tile", "k of 64, 128 or 256", fmt::format("k {}", r.k));
  }
  const CutlassVersion first = r.n < 32 ? kTinyTiles : r.n < 128 ? kNarrowTiles : kFirst;
  if (r.cutlass < first) {
    return impossible(r, "this CUTLASS does not build tiles this narrow",
                      fmt::format("CUTLASS {}.{} for n {}", first.major, first.minor, r.n),
                      fmt::format("{}.{}.{}", r.cutlass.major, r.cutlass.minor, r.cutlass.patch));
  }
  if (r.schedule == TileSchedule::pingpong && r.n < 16) {
    return impossible(r, "pingpong does not take tiles this narrow", "n of 16 or more", fmt::format("n {}", r.n));
  }
  if (!any_of(static_cast<int>(r.out),
              {static_cast<int>(DType::bf16), static_cast<int>(DType::f16), static_cast<int>(DType::f32)})) {
    return impossible(r, "no account for this output type", "bf16, f16 or f32", std::string(name(r.out)));
  }
  if (r.epilogue == TileEpilogue::finalize && (!r.grouped || r.out == DType::f32 || r.n < 32)) {
    return impossible(r, "the finalize epilogue is a grouped one with 16-bit output",
                      "grouped, bf16 or f16, n of 32 or more",
                      fmt::format("{}, {}, n {}", r.grouped ? "grouped" : "dense", name(r.out), r.n));
  }
  if (r.swap_ab && r.epilogue != TileEpilogue::finalize) {
    return impossible(r, "swap-ab changes the account only with the finalize epilogue", "finalize",
                      std::string(name(r.epilogue)));
  }
  return ok();
}

// Bytes of one mainloop stage, by operand.
struct Stage {
  std::int64_t a;
  std::int64_t b;
  std::int64_t sfa;
  std::int64_t sfb;
  std::int64_t sum() const { return a + b + sfa + sfb; }
};
Stage stage_of(const TileRequest& r) {
  const std::int64_t scales = 128LL * r.k / 16;  // one block of 128 rows, a byte per 16 elements
  return {std::int64_t{r.m} * r.k / 2, std::int64_t{r.n} * r.k / 2, r.m / 128 * scales,
          std::max(r.n, 128) / 128 * scales};
}

struct Epilogue {
  std::int64_t align;    // of the staged tile: eight rows of a swizzle atom
  std::int64_t tensors;  // sizeof the tensor storage
  int stages_c;          // depth of the load pipeline of C
};
Epilogue epilogue_of(const TileRequest& r) {
  const std::int64_t width = bits(r.out) / 8;
  const std::int64_t rows = r.n == 8 ? 128 : 64;
  const std::int64_t cols = std::min(r.n, 32);
  const std::int64_t tiles = std::int64_t{r.m} * r.n / (rows * cols);
  const int stages_d = static_cast<int>(std::min<std::int64_t>(tiles, 2));
  std::int64_t staged = rows * cols * width * stages_d;
  int stages_c = stages_d;
  std::int64_t align = 8 * cols * width;
  if (r.epilogue == TileEpilogue::c) {  // C and D share the buffers, one more than D alone
    stages_c = stages_d + 1;
    staged = rows * cols * width * stages_c;
  }
  if (r.epilogue == TileEpilogue::finalize) {
    staged *= 2;  // the scatter stages its rows a second time
    if (r.swap_ab) align = 8 * rows * width;
  }
  // The fusion's own (empty) storage follows the tiles: one byte, rounded up to the alignment.
  return {align, round_up(staged + 1, align), stages_c};
}

// Lays members out in order and keeps their offsets.
class Layout {
 public:
  void add(std::string member, std::int64_t bytes, std::int64_t align) {
    at_ = round_up(at_, align);
    account_.members.push_back({std::move(member), at_, bytes, align});
    at_ += bytes;
  }
  void pad_to(std::int64_t align) { at_ = round_up(at_, align); }
  TileAccount finish(int stages, std::int64_t align) && {
    account_.stages = stages;
    account_.total = round_up(at_, align);
    account_.padding = account_.total;
    for (const TileMember& member : account_.members) account_.padding -= member.bytes;
    return std::move(account_);
  }

 private:
  std::int64_t at_ = 0;
  TileAccount account_;
};

void add_pipelines(Layout& layout, const TileRequest& r, const Epilogue& epilogue, int stages) {
  layout.add("mainloop barriers", kBarrierPair * stages, 8);
  layout.add("epilogue load barriers", kBarrierPair * epilogue.stages_c, 8);
  layout.add("load order barrier", kBarrierPair, 8);
  if (r.schedule == TileSchedule::pingpong) layout.add("math warp-group order barrier", 32, 8);
}

void add_mainloop(Layout& layout, const Stage& stage, int stages) {
  layout.add("A", stage.a * stages, kMainloopAlign);
  layout.add("B", stage.b * stages, kMainloopAlign);
  layout.add("SFA", stage.sfa * stages, 16);
  layout.add("SFB", stage.sfb * stages, 16);
  layout.pad_to(kMainloopAlign);
}

// n of 8 and 16 came with releases that are on no package index; k of 64 is published for m x 128 alone.
TileSource source_of(const TileRequest& r) {
  const bool published = r.out == DType::bf16 && r.schedule == TileSchedule::cooperative;
  if (r.n < 32) return r.m == 128 && r.k == 128 && published ? TileSource::page : TileSource::formula;
  if (r.k == 64) {
    return r.n == 128 && published && r.epilogue == TileEpilogue::void_c ? TileSource::page : TileSource::formula;
  }
  if ((r.m == 256 && (r.n != 128 || r.k != 128)) || (r.n == 256 && r.k != 128)) return TileSource::formula;
  return TileSource::compiled;
}

int blocks_per_sm(std::int64_t total, std::int64_t smem_per_sm) {
  const std::int64_t by_smem = smem_per_sm / round_up(total + kSmemReserved, kSmemGranularity);
  const std::int64_t by_registers = kRegistersPerSm / kRegistersPerBlock;
  return static_cast<int>(std::min({by_smem, by_registers, std::int64_t{kThreadsPerSm / kThreads}}));
}

}  // namespace

std::string_view name(TileSource source) {
  constexpr std::array<std::string_view, 3> kNames{"compiled", "page", "formula"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string_view name(TileSchedule schedule) {
  return schedule == TileSchedule::cooperative ? "cooperative" : "pingpong";
}

std::string_view name(TileEpilogue epilogue) {
  constexpr std::array<std::string_view, 3> kNames{"void", "c", "finalize"};
  return kNames[static_cast<std::size_t>(epilogue)];
}

Result<CutlassVersion> parse_cutlass_version(std::string_view text) {
  std::array<int, 3> part{0, 0, 0};
  std::size_t count = 0;
  for (std::string_view rest = text; count < part.size();) {
    const std::size_t dot = rest.find('.');
    long long value = 0;
    if (!core::parse_int(rest.substr(0, dot), value) || value < 0 || value > 999) break;
    part[count++] = static_cast<int>(value);
    if (dot == std::string_view::npos) {
      if (count >= 2) return CutlassVersion{part[0], part[1], part[2]};
      break;
    }
    rest.remove_prefix(dot + 1);
  }
  Error error;
  error.kind = ErrorKind::usage;
  error.id = "TE0702";
  error.what = "not a CUTLASS version";
  error.need = "a release such as 4.4.2 or 4.6";
  error.have = fmt::format("'{}'", text.substr(0, 40));
  return error;
}

Result<TileAccount> sm120_tile_account(const TileRequest& request, int stages) {
  if (Status status = check(request); !status) return status.error();
  if (stages < 2 || stages > 64) {
    return impossible(request, "the mainloop needs at least two stages", "2 to 64", fmt::format("{}", stages));
  }
  const Stage stage = stage_of(request);
  const Epilogue epilogue = epilogue_of(request);
  Layout layout;
  if (request.grouped) {
    add_mainloop(layout, stage, stages);
    layout.add("epilogue tile", epilogue.tensors, epilogue.align);
    layout.pad_to(kMainloopAlign);
    layout.add("scheduler barriers", 128, 8);
    add_pipelines(layout, request, epilogue, stages);
    layout.add("scheduler responses", 128, 16);
    layout.pad_to(kTensorMap);
    layout.add("mainloop tensor maps (A, B, SFA, SFB)", 4 * kTensorMap, kTensorMap);
    layout.add("epilogue tensor maps", 3 * kTensorMap, kTensorMap);
  } else {
    add_pipelines(layout, request, epilogue, stages);
    layout.pad_to(kMainloopAlign);
    layout.add("epilogue tile", epilogue.tensors, epilogue.align);
    layout.pad_to(kMainloopAlign);
    add_mainloop(layout, stage, stages);
  }
  return std::move(layout).finish(stages, kMainloopAlign);
}

Result<TileFit> sm120_tile_fit(const TileRequest& request, std::int64_t smem_per_sm) {
  if (Status status = check(request); !status) return status.error();
  const Stage stage = stage_of(request);
  const Epilogue epilogue = epilogue_of(request);
  TileFit fit;
  fit.budget = kBudget;
  fit.source = source_of(request);
  fit.stage_bytes = stage.sum() + 128;  // the barriers of a stage are charged as one aligned block
  const std::int64_t maps = request.grouped ? 3 * kTensorMap : 0;
  fit.carveout = round_up(epilogue.tensors + maps + kBarrierPair * epilogue.stages_c, epilogue.align);
  if (!(request.cutlass < kReservesScheduler)) {
    fit.reserved = request.grouped ? 128 + 2 * kTensorMap + 48 : 48 + 3 * 16;
  } else {
    fit.notes.emplace_back("CUTLASS before 4.4.2 reserves nothing for the scheduler and the tensor maps");
  }
  const auto stages = static_cast<int>((fit.budget - fit.reserved - fit.carveout) / fit.stage_bytes);
  if (stages < 2) {
    return impossible(request, "the builder refuses the tile: fewer than two stages",
                      fmt::format("{} B for two stages", 2 * fit.stage_bytes + fit.reserved + fit.carveout),
                      fmt::format("a budget of {} B", fit.budget));
  }
  Result<TileAccount> cutlass = sm120_tile_account(request, stages);
  if (!cutlass) return cutlass.error();
  fit.cutlass = std::move(*cutlass);
  for (int count = 64; count >= 2; --count) {
    Result<TileAccount> account = sm120_tile_account(request, count);
    if (!account) return account.error();
    if (account->total > request.limit) continue;
    fit.fit = std::move(*account);
    fit.blocks_per_sm = blocks_per_sm(fit.fit.total, smem_per_sm);
    break;
  }
  if (fit.cutlass.total > request.limit) {
    fit.notes.push_back(fmt::format(
        "CUTLASS's own stage count overflows the limit by {} B: kErrorInternal at initialise, on every 12.x device",
        fit.cutlass.total - request.limit));
  }
  if (request.epilogue == TileEpilogue::finalize) {
    fit.notes.emplace_back("finalize: TensorRT-LLM's scatter visitor, which is no part of a release of CUTLASS");
  }
  return fit;
}

}  // namespace tetrad
