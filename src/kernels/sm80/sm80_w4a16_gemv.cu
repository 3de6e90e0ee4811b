// Row sm80_w4a16_gemv: up to 16 tokens; few of them go to gemv_few.cuh.
//
// The weights of layout mma16/1 stream through a ring of cp.async copies per warp, become the A operand of
// mma.sync, and meet the activations, which stay in shared memory.
//
// A block holds a slice of k of the activations (all of it where they fit). Its teams of warps each own a range of the
// steps (tile of 16 rows, j). Warp w of a team holds the groups of 64 elements [w * steps, (w + 1) * steps) of the
// slice; step j of a tile is group j of every warp, so a tile is one contiguous stretch of memory that a team reads
// together. Sums of the warps meet in shared memory in warp order; sums of several teams meet in the workspace, added
// in team order by whichever comes last (an integer counter per tile, left at zero). No float atomics: the same bits
// every time.
#include <algorithm>
#include <array>
#include <string>

#include "kernels/gpu/cuda.hpp"
#include "kernels/gpu/row.hpp"
#include "kernels/sm80/gemv_few.cuh"
#include "kernels/sm80/gemv_parts.cuh"

namespace tetrad::kernels {
namespace {

using namespace sm80;

// A ring holds this many groups per warp, all but two of them in flight: 16 warps * 6 * 576 B = 54 KiB per
// multiprocessor, where 4.3 TB/s and a microsecond need 33.
constexpr int kRing = 8;
constexpr int kWarpBytes = kRing * kGroupBytes + 16;

// Columns [begin, end) of every token into shared memory, zero from k on; by one warp for itself.
template <class T>
__device__ void stage(const Params& p, T* rows, int row_elements, int first_column, int begin, int end, int lane) {
  const auto* x = static_cast<const T*>(p.x);
  for (int token = 0; token < p.m; ++token) {
    const T* from = x + token * p.x_stride + first_column;
    T* to = rows + token * row_elements;
    for (int c = begin + lane * 8; c < end; c += 32 * 8) {
      if (first_column + c >= p.k) {
        *reinterpret_cast<uint4*>(to + c) = make_uint4(0, 0, 0, 0);
      } else if (p.vectors) {
        sm80::copy_async(static_cast<std::uint32_t>(__cvta_generic_to_shared(to + c)), from + c);
      } else {
        for (int i = 0; i < 8; ++i) to[c + i] = from[c + i];
      }
    }
  }
}

template <class T, int NT>
__global__ void __launch_bounds__(kMaxWarps * 32, 1) gemv(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) std::uint8_t shared[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp_of_block = static_cast<int>(threadIdx.x) >> 5;
  const int all_warps = static_cast<int>(blockDim.x) >> 5;
  const int warps = p.team;
  const int teams = all_warps / warps;
  const int team = warp_of_block / warps;
  const int warp = warp_of_block - team * warps;
  const int slice = static_cast<int>(blockIdx.x) / p.grid;
  const int block = (static_cast<int>(blockIdx.x) - slice * p.grid) * teams + team;
  const Pieces pieces(p, block);

  // This warp's groups of the slice: steps [0, mine).
  const int slice_groups = min(p.slice_groups, p.groups - slice * p.slice_groups);
  const int first_group = min(warp * p.steps, slice_groups);
  const int mine = min(p.steps, slice_groups - first_group);
  const std::int64_t group0 = static_cast<std::int64_t>(slice) * p.slice_groups + first_group;
  const std::uint8_t* codes =
      p.weights + group0 * weight::kMma16CodeBytes + 16 * weight::mma16_place(lane / 4, lane % 4);
  const std::uint8_t* scales = p.weights + static_cast<std::int64_t>(p.groups) * weight::kMma16CodeBytes +
                               group0 * weight::kMma16ScaleBytes + 16 * (lane & 3);

  // Memory: sums [team][2][warps][NT][32] float4; per warp a ring of groups and 16 zero bytes; activations
  // [m][row_elements].
  auto* sums = reinterpret_cast<float4*>(shared) + team * 2 * warps * NT * 32;
  std::uint8_t* own = shared + 2 * all_warps * NT * 512 + warp_of_block * kWarpBytes;
  const std::uint32_t ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(own));
  std::uint8_t* zero = own + kRing * kGroupBytes;
  auto* rows = reinterpret_cast<T*>(shared + 2 * all_warps * NT * 512 + all_warps * kWarpBytes);
  const int row_elements = p.slice_groups * 64 + kPad;

  // The walk of the copies runs ahead of the sums: a group a call, nothing after the last.
  int ahead = -1;
  int ahead_left = 0;
  const std::uint8_t* ahead_codes = nullptr;
  const std::uint8_t* ahead_scales = nullptr;
  std::uint32_t ahead_at = 0;
  const auto copy = [&] {
    while (ahead_left <= 0 && ahead + 1 < pieces.count) {
      ++ahead;
      const int tile = pieces.tile(ahead);
      const int begin = pieces.begin(tile);
      ahead_left = min(pieces.end(tile, p.steps), mine) - begin;
      const std::int64_t at = tile * p.tile_bytes;
      ahead_codes = codes + at + begin * weight::kMma16CodeBytes;
      ahead_scales = scales + at + begin * weight::kMma16ScaleBytes;
    }
    if (ahead_left > 0) {
      sm80::copy_async(ring + ahead_at + 16 * lane, ahead_codes);
      if (lane < 4) sm80::copy_async(ring + ahead_at + 512 + 16 * lane, ahead_scales);
      --ahead_left;
      ahead_codes += weight::kMma16CodeBytes;
      ahead_scales += weight::kMma16ScaleBytes;
    }
    sm80::copy_async_commit();
    ahead_at = ahead_at == (kRing - 1) * kGroupBytes ? 0 : ahead_at + kGroupBytes;
  };
  // The activations belong to the first group of copies; the teams share the work.
  stage(p, rows, row_elements, slice * p.slice_groups * 64, (first_group + mine * team / teams) * 64,
        (first_group + mine * (team + 1) / teams) * 64, lane);
#pragma unroll 1
  for (int i = 0; i < kRing - 1; ++i) copy();
  if (lane == 0) *reinterpret_cast<uint4*>(zero) = make_uint4(0, 0, 0, 0);
  // ldmatrix: lane l gives the row of token l % 8, elements 8 * (l / 8); tokens past m read zeros.
  std::uint32_t x_at[NT];
  std::uint32_t x_step[NT];
#pragma unroll
  for (int nt = 0; nt < NT; ++nt) {
    const int token = nt * 8 + lane % 8;
    const T* row = rows + token * row_elements + first_group * 64 + lane / 8 * 8;
    x_step[nt] = token < p.m ? 64 * sizeof(T) : 0;
    x_at[nt] = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(token < p.m ? static_cast<const void*>(row) : static_cast<const void*>(zero)));
  }
  sm80::copy_async_wait<kRing - 2>();
  __syncthreads();

  // Words and factors of a group come out of the ring one group before they are used.
  std::uint32_t read_at = 0;
  uint4 word;
  std::uint32_t factors[4];
  const auto fetch = [&](uint4& words) -> std::uint32_t {
    words = sm80::load_shared(ring + read_at + 16 * lane);
    const std::uint32_t pair = sm80::load_shared_u16(ring + read_at + 512 + 2 * lane);
    read_at = read_at == (kRing - 1) * kGroupBytes ? 0 : read_at + kGroupBytes;
    return pair;
  };
  const auto spread = [&](std::uint32_t pair) {
    const std::uint32_t mine_only = sm80::Arithmetic<T>::scales(pair);
#pragma unroll
    for (int s = 0; s < 4; ++s) factors[s] = __shfl_sync(0xFFFFFFFFU, mine_only, s, 4);
  };
  spread(fetch(word));

  int reducer = 0;
#pragma unroll 1
  for (int piece = 0; piece < pieces.count; ++piece) {
    const int tile = pieces.tile(piece);
    const int begin = pieces.begin(tile);
    const int left = min(pieces.end(tile, p.steps), mine) - begin;
    float acc[NT][4] = {};
    std::uint32_t x_now[NT];
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) x_now[nt] = x_at[nt] + begin * x_step[nt];
#pragma unroll 2
    for (int i = 0; i < left; ++i) {
      uint4 b[NT][2];
#pragma unroll
      for (int nt = 0; nt < NT; ++nt) {
        b[nt][0] = sm80::load_matrix(x_now[nt]);
        b[nt][1] = sm80::load_matrix(x_now[nt] + (x_step[nt] >> 1));
        x_now[nt] += x_step[nt];
      }
      sm80::copy_async_wait<kRing - 3>();
      __syncwarp();
      uint4 next;
      const std::uint32_t next_pair = fetch(next);
      copy();
      const std::uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const sm80::OperandA a = sm80::scaled<T>(sm80::Arithmetic<T>::codes(words[s]), factors[s]);
#pragma unroll
        for (int nt = 0; nt < NT; ++nt) {
          const uint4& two = b[nt][s / 2];
          sm80::Arithmetic<T>::mma(acc[nt], a, s % 2 == 0 ? two.x : two.z, s % 2 == 0 ? two.y : two.w);
        }
      }
      word = next;
      spread(next_pair);
    }
    float4* buffer = sums + (piece & 1) * warps * NT * 32;
#pragma unroll
    for (int nt = 0; nt < NT; ++nt)
      buffer[(warp * NT + nt) * 32 + lane] = make_float4(acc[nt][0], acc[nt][1], acc[nt][2], acc[nt][3]);
    sm80::barrier_sync(1 + team, warps * 32);
    if (reducer == warp) {
      const bool whole = p.slices == 1 && begin == 0 && pieces.end(tile, p.steps) == p.steps;
      finish<NT>(p, buffer, warps, lane, slice, block, tile, whole);
    }
    reducer = reducer + 1 == warps ? 0 : reducer + 1;
  }
}

using GemvFunction = void (*)(Params);

template <class T>
GemvFunction function_of(int m, bool few) {
  if (!few) return m > 8 ? gemv<T, 2> : gemv<T, 1>;
  constexpr GemvFunction kFew[kFewTokens] = {gemv_few<T, 1>, gemv_few<T, 2>, gemv_few<T, 3>, gemv_few<T, 4>};
  return kFew[m - 1];
}

GemvFunction function_of(DType type, int m, bool few) {
  return type == DType::bf16 ? function_of<__nv_bfloat16>(m, few) : function_of<__half>(m, few);
}

// How a number of tokens is launched.
struct Config {
  bool few = false;
  int slices = 0;  // 0: the activations of one group do not fit
  int slice_groups = 0;
  int warps = 0;  // of a block
  int team = 0;
  int steps = 0;
  int grid = 0;    // blocks per slice
  int blocks = 0;  // teams per slice
  int pieces = 0;
  int smem = 0;
  std::size_t workspace = 0;
  int unit = 0;  // of gemv_few
  int block_units = 0;
  int more_blocks = 0;
  int step = 0;
};

int divide_up(int value, int by) { return (value + by - 1) / by; }

// gemv_few: whole tiles to a block where that leaves the multiprocessors nearly even, groups where not.
Config configure_few(int m, int tiles, int groups, int sms, int smem_limit) {
  Config c;
  const std::int64_t all = static_cast<std::int64_t>(tiles) * groups;
  if (m > kFewTokens || all > INT32_MAX / 32) return {};
  // From three tokens on its fixed cost is less but its work per group more: measured on an H200, docs/hopper.md.
  if (m > 2 && all > std::int64_t{256} * sms) return {};
  const bool whole =
      static_cast<std::int64_t>(divide_up(tiles, sms)) * sms * 16 <= static_cast<std::int64_t>(tiles) * 17;
  c.step = groups % kBatch == 0 ? kBatch : 1;
  c.unit = whole ? groups : c.step;
  const auto units = static_cast<int>(all / c.unit);
  c.grid = std::min(sms, units);
  c.block_units = units / c.grid;
  c.more_blocks = units % c.grid;
  const int least = c.block_units * c.unit;
  c.pieces = whole ? 1 : divide_up(groups - 1, least) + 1;
  c.slices = 1;
  c.slice_groups = groups;
  c.warps = kMaxWarps;
  const std::int64_t smem = few_smem(m, groups, (least + c.unit) / groups + 2);
  if (smem > smem_limit) return {};
  c.smem = static_cast<int>(smem);
  c.workspace = whole ? 0 : static_cast<std::size_t>(tiles) * static_cast<std::size_t>(c.pieces * m) * 64;
  c.few = true;
  return c;
}

// The fewest slices whose activations fit; then the smallest team that still gets a tile, or groups for its warps.
Config configure(int m, int tiles, int groups, int sms, int smem_limit) {
  if (const Config few = configure_few(m, tiles, groups, sms, smem_limit); few.few) return few;
  Config c;
  const int nt = m > 8 ? 2 : 1;
  c.warps = kMaxWarps;
  for (c.slices = 1; c.slices <= groups; ++c.slices) {
    c.slice_groups = divide_up(groups, c.slices);
    if ((c.slices - 1) * c.slice_groups >= groups) continue;  // the last slice would be empty
    c.smem = c.warps * (2 * nt * 512 + kWarpBytes) + m * (c.slice_groups * 64 + kPad) * 2;
    if (c.smem <= smem_limit) break;
  }
  if (c.slices > groups) return {};
  const int blocks = std::max(1, sms / c.slices);  // per slice
  c.team = kMaxWarps;
  for (const int team : {8, 4, 2})
    if (tiles >= blocks * (kMaxWarps / team) || c.slice_groups < 2 * c.team) c.team = team;
  c.steps = divide_up(c.slice_groups, c.team);
  const int teams = c.warps / c.team;
  const std::int64_t all = static_cast<std::int64_t>(tiles) * c.steps;
  c.grid = static_cast<int>(std::min<std::int64_t>(blocks, (all + teams - 1) / teams));
  c.blocks = static_cast<int>(std::min<std::int64_t>(static_cast<std::int64_t>(c.grid) * teams, all));
  const auto least = static_cast<int>(all / c.blocks);  // steps of a team
  const bool even = all % c.blocks == 0 && least % c.steps == 0;
  const int shared_by = even ? 1 : std::min(c.steps, divide_up(c.steps - 1, least) + 1);
  c.pieces = c.slices * shared_by;
  c.workspace = c.pieces == 1 ? 0 : static_cast<std::size_t>(tiles) * static_cast<std::size_t>(c.pieces * nt) * 512;
  return c;
}

class Gemv final : public gpu::Kernel {
 public:
  static Result<std::unique_ptr<gpu::Kernel>> make(const gpu::Weight& weight) {
    auto kernel = std::make_unique<Gemv>(weight);
    if (Status status = kernel->prepare(); !status) return status.error();
    return std::unique_ptr<gpu::Kernel>(std::move(kernel));
  }
  explicit Gemv(const gpu::Weight& weight) : weight_(weight) {}

  std::size_t workspace_bytes(std::int64_t m) const override {
    return m >= 1 && m <= kMaxTokens ? configs_[static_cast<std::size_t>(m - 1)].workspace : 0;
  }

  Status launch(const gpu::Args& args) override {
    if (Status status = check_device_args(args, weight_.rows, weight_.k, kMaxTokens); !status) return status;
    if (args.x.rows == 0) return ok();
    const Config& c = configs_[static_cast<std::size_t>(args.x.rows - 1)];
    if (args.workspace_bytes < c.workspace || (c.workspace > 0 && args.workspace == nullptr) ||
        reinterpret_cast<std::uintptr_t>(args.workspace) % 16 != 0)
      return Error{ErrorKind::usage,
                   "TE1003",
                   "the workspace is too small or not aligned",
                   {},
                   std::to_string(c.workspace) + " B on a boundary of 16",
                   std::to_string(args.workspace_bytes) + " B",
                   {},
                   "ask workspace_bytes(m)"};
    Params p{};
    p.weights = weight_.data.data.get();
    p.tile_bytes = weight::mma16_tile_bytes(weight_.k);
    p.x = args.x.data;
    p.x_stride = args.x.stride;
    p.y = args.y.data;
    p.y_stride = args.y.stride;
    p.bias = args.bias;
    p.nan_rows = weight_.nan_rows.data.get();
    p.partial = static_cast<float4*>(args.workspace);
    p.counters = reinterpret_cast<unsigned*>(counters_.data.get());
    p.alpha = static_cast<float>(weight_.global.decode());
    p.product = !c.few                       ? kProductScale
                : args.x.type == DType::bf16 ? Split<__nv_bfloat16>::kProduct
                                             : Split<__half>::kProduct;
    p.out = args.y.type;
    p.vectors = reinterpret_cast<std::uintptr_t>(args.x.data) % 16 == 0 && args.x.stride % 8 == 0;
    p.m = static_cast<int>(args.x.rows);
    p.n = static_cast<int>(weight_.rows);
    p.k = static_cast<int>(weight_.k);
    p.tiles = static_cast<int>(weight::mma16_tiles(weight_.rows));
    p.groups = static_cast<int>(weight::mma16_groups(weight_.k));
    p.slice_groups = c.slice_groups;
    p.slices = c.slices;
    p.steps = c.steps;
    p.team = c.team;
    p.grid = c.grid;
    p.blocks = c.blocks;
    p.pieces = c.pieces;
    p.unit = c.unit;
    p.block_units = c.block_units;
    p.more_blocks = c.more_blocks;
    p.step = c.step;
    const GemvFunction function = function_of(args.x.type, p.m, c.few);
    void* arguments[] = {&p};
    return cuda_status(
        cudaLaunchKernel(reinterpret_cast<const void*>(function), dim3(c.grid * c.slices), dim3(c.warps * 32),
                         arguments, static_cast<std::size_t>(c.smem), static_cast<cudaStream_t>(args.stream)),
        "launching sm80_w4a16_gemv");
  }

 private:
  Status prepare() {
    const Result<gpu::DeviceInfo> device = gpu::current_device();
    if (!device) return device.error();
    const auto limit = static_cast<int>(device->smem_per_block_optin);
    for (const DType type : {DType::bf16, DType::f16})
      for (int m = 1; m <= 2 * kMaxTokens; ++m) {
        const bool few = m > kMaxTokens;
        if (few && m > kMaxTokens + kFewTokens) break;
        const auto* function = reinterpret_cast<const void*>(function_of(type, few ? m - kMaxTokens : m, few));
        if (Status status =
                cuda_status(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, limit),
                            "loading sm80_w4a16_gemv");
            !status)
          return status;
      }
    const auto tiles = static_cast<int>(weight::mma16_tiles(weight_.rows));
    for (int m = 1; m <= kMaxTokens; ++m)
      configs_[static_cast<std::size_t>(m - 1)] =
          configure(m, tiles, static_cast<int>(weight::mma16_groups(weight_.k)), device->sms, limit);
    const std::size_t bytes = static_cast<std::size_t>(tiles) * sizeof(unsigned);
    Result<gpu::Memory> counters = gpu::allocate(bytes);
    if (!counters) return counters.error();
    counters_ = *counters;
    return gpu::fill(counters_.data.get(), 0, bytes);
  }

  gpu::Weight weight_;
  gpu::Memory counters_;
  std::array<Config, kMaxTokens> configs_{};
};

}  // namespace

Result<std::unique_ptr<gpu::Kernel>> bind_sm80_w4a16_gemv(const gpu::Weight& weight) {
  if (weight.layout != "mma16/1" || weight.rows <= 0 || weight.k <= 0 || weight.k % kBlock != 0 ||
      weight.rows > INT32_MAX - 16 || weight.k > INT32_MAX - 64 || weight.data.data == nullptr ||
      weight.data.bytes != static_cast<std::size_t>(weight::mma16_bytes(weight.rows, weight.k)))
    return Error{ErrorKind::input,
                 "TE0601",
                 "the weight does not fit sm80_w4a16_gemv",
                 {},
                 "layout mma16/1 with its bytes, k a multiple of 16",
                 weight.layout + ", " + std::to_string(weight.rows) + "x" + std::to_string(weight.k) + ", " +
                     std::to_string(weight.data.bytes) + " B",
                 {},
                 {}};
  return Gemv::make(weight);
}

}  // namespace tetrad::kernels
