// What the kernels of row sm80_w4a16_gemv share: parameters, the walk over tiles, the sums of warps and blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/sm80/fragments.cuh"
#include "tetrad/gpu.hpp"
#include "weight/mma16.hpp"

namespace tetrad::kernels::sm80 {

constexpr int kMaxTokens = 16;
constexpr int kMaxWarps = 16;
constexpr int kGroupBytes = weight::kMma16CodeBytes + weight::kMma16ScaleBytes;
constexpr int kPad = 8;  // elements behind a row of activations: 8 rows of ldmatrix on different banks

struct Params {
  const std::uint8_t* weights;
  std::int64_t tile_bytes;
  const void* x;
  std::int64_t x_stride;
  void* y;
  std::int64_t y_stride;
  const float* bias;
  const std::uint8_t* nan_rows;
  float4* partial;     // [tile][piece][n tile][lane]
  unsigned* counters;  // [tile], zero between launches
  float alpha;
  float product;  // what the sums are smaller by
  DType out;
  bool vectors;  // rows of x start on 16 bytes
  int m;
  int n;
  int k;
  int tiles;
  int groups;        // of 64 elements in all of k
  int slice_groups;  // of a slice
  int slices;
  int steps;   // groups of a warp
  int team;    // warps that share a tile
  int grid;    // blocks of a slice
  int blocks;  // teams of a slice that have work
  int pieces;  // of a tile, at most
  // gemv_few: units of so many groups; each block has block_units of them, the first more_blocks one more; a block
  // deals out steps of so many groups to its warps.
  int unit;
  int block_units;
  int more_blocks;
  int step;
};

// Position of a block in its list of pieces: tile, and which of its steps. A tile shared with the next block comes
// first, the one shared with the block before second: their sums have met long before the last block ends.
struct Pieces {
  int first_tile = 0;
  int last_tile = 0;
  int first_step = 0;  // in first_tile
  int last_step = 0;   // in last_tile, past the end; 0 where the range ends with a tile
  int count = 0;
  int tail_first = 0;  // 1 where the last tile is processed first

  __device__ Pieces(const Params& p, int block) {
    if (block >= p.blocks) return;
    const std::int64_t all = static_cast<std::int64_t>(p.tiles) * p.steps;
    const auto begin = static_cast<int>(all * block / p.blocks);
    const auto end = static_cast<int>(all * (block + 1) / p.blocks);
    first_tile = begin / p.steps;
    first_step = begin - first_tile * p.steps;
    last_tile = end / p.steps;
    last_step = end - last_tile * p.steps;
    count = last_tile - first_tile + (last_step != 0 ? 1 : 0);
    tail_first = last_step != 0 && last_tile > first_tile ? 1 : 0;
  }
  __device__ int tile(int i) const { return tail_first != 0 && i == 0 ? last_tile : first_tile + i - tail_first; }
  __device__ int begin(int tile) const { return tile == first_tile ? first_step : 0; }
  __device__ int end(int tile, int steps) const { return tile == last_tile ? last_step : steps; }
};

__device__ inline int owner(const Params& p, std::int64_t step) {
  const std::int64_t all = static_cast<std::int64_t>(p.tiles) * p.steps;
  return static_cast<int>(((step + 1) * p.blocks - 1) / all);
}

__device__ inline void store(const Params& p, int token, int row, float sum) {
  if (token >= p.m || row >= p.n) return;
  float value = sum * p.product * p.alpha;
  if (p.bias != nullptr) value += p.bias[row];
  if (p.nan_rows != nullptr && p.nan_rows[row] != 0) value = __int_as_float(0x7FFFFFFF);
  const std::int64_t at = token * p.y_stride + row;
  if (p.out == DType::f32)
    static_cast<float*>(p.y)[at] = value;
  else if (p.out == DType::bf16)
    static_cast<__nv_bfloat16*>(p.y)[at] = __float2bfloat16_rn(value);
  else
    static_cast<__half*>(p.y)[at] = __float2half_rn(value);
}

// One warp: the sums of a tile over this block's warps; then the result, or this block's part of it.
// Not inlined: the loop over groups is unrolled and must stay in the instruction cache.
template <int NT>
__device__ __noinline__ void finish(const Params& p, const float4* sums, int warps, int lane, int slice, int block,
                                    int tile, bool whole) {
  float4 total[NT];
#pragma unroll
  for (int nt = 0; nt < NT; ++nt) {
    total[nt] = sums[nt * 32 + lane];
#pragma unroll 8
    for (int w = 1; w < warps; ++w) {
      const float4 v = sums[(w * NT + nt) * 32 + lane];
      total[nt].x += v.x;
      total[nt].y += v.y;
      total[nt].z += v.z;
      total[nt].w += v.w;
    }
  }
  if (!whole) {
    const std::int64_t step = static_cast<std::int64_t>(tile) * p.steps;
    const int first = owner(p, step);
    const int per_slice = owner(p, step + p.steps - 1) - first + 1;
    const int piece = slice * per_slice + block - first;
    float4* parts = p.partial + static_cast<std::int64_t>(tile) * p.pieces * NT * 32;
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) parts[(piece * NT + nt) * 32 + lane] = total[nt];
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (lane == 0) before = atomicAdd(p.counters + tile, 1U);
    before = __shfl_sync(0xFFFFFFFFU, before, 0);
    const int pieces = per_slice * p.slices;
    if (static_cast<int>(before) + 1 != pieces) return;
    __threadfence();
    if (lane == 0) p.counters[tile] = 0;
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) {
      total[nt] = __ldcg(parts + nt * 32 + lane);
#pragma unroll 1
      for (int i = 1; i < pieces; ++i) {
        const float4 v = __ldcg(parts + (i * NT + nt) * 32 + lane);
        total[nt].x += v.x;
        total[nt].y += v.y;
        total[nt].z += v.z;
        total[nt].w += v.w;
      }
    }
  }
  const int row = tile * 16 + lane / 4;
#pragma unroll
  for (int nt = 0; nt < NT; ++nt) {
    const int token = nt * 8 + lane % 4 * 2;
    store(p, token, row, total[nt].x);
    store(p, token + 1, row, total[nt].y);
    store(p, token, row + 8, total[nt].z);
    store(p, token + 1, row + 8, total[nt].w);
  }
}

}  // namespace tetrad::kernels::sm80
