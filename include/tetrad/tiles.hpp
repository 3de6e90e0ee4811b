// Does a tile fit? The shared-memory account of CUTLASS's SM120 block-scaled NVFP4 kernels, computed member by member.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tetrad/candidate.hpp"
#include "tetrad/error.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

enum class TileSchedule : std::uint8_t { cooperative, pingpong };
std::string_view name(TileSchedule schedule);

// What the epilogue reads and writes: D alone, C and D (same type), or TensorRT-LLM's fused finalize (scatter of a
// MoE).
enum class TileEpilogue : std::uint8_t { void_c, c, finalize };
std::string_view name(TileEpilogue epilogue);

// A CUTLASS release, 4.7.0 = {4, 7, 0}.
struct CutlassVersion {
  int major = 4;
  int minor = 7;
  int patch = 0;
  friend auto operator<=>(const CutlassVersion&, const CutlassVersion&) = default;
};
// "4.4.2" or "4.6". Error (usage) otherwise.
Result<CutlassVersion> parse_cutlass_version(std::string_view text);

struct TileRequest {
  int m = 128;  // elements, like n and k
  int n = 128;
  int k = 128;
  TileSchedule schedule = TileSchedule::cooperative;
  TileEpilogue epilogue = TileEpilogue::void_c;
  DType out = DType::bf16;  // bf16, f16 or f32; C has the same type
  bool grouped = false;
  bool swap_ab = false;  // finalize only: the output tile is stored column-major
  CutlassVersion cutlass;
  std::int64_t limit = 101376;  // bytes per block that the device allows (opt-in)
};

// One member of the kernel's SharedStorage.
struct TileMember {
  std::string name;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int64_t align = 1;
};

struct TileAccount {
  int stages = 0;
  std::vector<TileMember> members;  // in order; gaps between them are padding
  std::int64_t total = 0;           // sizeof(SharedStorage), as allocated
  std::int64_t padding = 0;         // total - sum of members
};

// Where an account was checked: `compiled`, CUTLASS's templates with the same kind of tile are compiled by the tests
// (headers on PyPI go to 4.5.0, so n of 32 or more); `page`, only the published sizes of docs/tiles.md; `formula`,
// nothing.
enum class TileSource : std::uint8_t { compiled, page, formula };
std::string_view name(TileSource source);

struct TileFit {
  std::int64_t stage_bytes = 0;  // what CUTLASS charges for one stage
  std::int64_t reserved = 0;     // scheduler and tensor maps, as CUTLASS reserves them (0 before 4.4.2)
  std::int64_t carveout = 0;     // sizeof(CollectiveEpilogue::SharedStorage)
  std::int64_t budget = 101376;  // the constant in CUTLASS's SM120 builder
  TileAccount cutlass;           // with the stage count that StageCountAutoCarveout takes
  TileAccount fit;               // with the largest count whose total is within the limit; stages 0: none of 2 or more
  int blocks_per_sm = 0;         // by shared memory, threads and registers, for `fit`
  TileSource source = TileSource::formula;
  std::vector<std::string> notes;
};

// Shared storage with a given stage count. Errors (unavailable): a tile that CUTLASS cannot build, with the reason.
// Source of the member list: CUTLASS 4.7.0, sm90_gemm_{array_,}tma_warpspecialized_{cooperative,pingpong}.hpp,
// sm120_blockscaled_mma_{array_,}tma.hpp, sm120_builder.inl; equal to the compiler's sizes on every row of
// tests/data/tiles/sm120.json.
Result<TileAccount> sm120_tile_account(const TileRequest& request, int stages);

// Stage counts and occupancy. Errors as above; `blocks_per_sm` is for `smem_per_sm` bytes (102400 on 12.x).
Result<TileFit> sm120_tile_fit(const TileRequest& request, std::int64_t smem_per_sm = 102400);

}  // namespace tetrad
