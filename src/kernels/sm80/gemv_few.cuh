// Up to four tokens. The operand of m16n8k16 has eight columns; a token fills two of them per block of 16: columns 2b
// and 2b + 1 hold its elements of block b and zeros elsewhere. The four steps of a group then leave the four block
// sums apart, column pair b in lane b of a quad, which is the lane that loads scale b: codes need no scaling and
// scales no shuffle, the sums are scaled in fp32.
//
// bf16 codes are 2^-126 of their value, so the elements below 1 are stored times 2^127 (first column) and the others as
// they are (second column): both exact, and no product of a code and an element is smaller than fp32 can hold.
#pragma once

#include "kernels/sm80/gemv_parts.cuh"

namespace tetrad::kernels::sm80 {

constexpr int kFewTokens = 4;
constexpr int kBatch = 4;   // groups per copy and wait
constexpr int kStages = 2;  // batches a warp holds; the next copy starts when one is in registers
constexpr int kBatchBytes = kBatch * kGroupBytes;
constexpr int kBatchScales = kBatch * weight::kMma16CodeBytes;  // offset within a batch
constexpr int kFewZeros = kBatch * 128;                         // bytes that lanes without elements read

template <class T>
struct Split;

template <>
struct Split<__nv_bfloat16> {
  static constexpr int kColumns = 2;
  static constexpr float kProduct = 128.0F;  // 2^8 of the scales; the sums are doubled
  static __device__ __forceinline__ std::uint32_t part(std::uint32_t bits, int column) {
    const float v = __uint_as_float(bits << 16);
    if (column == 0) return fabsf(v) < 1.0F ? __float_as_uint(v * 0x1p127F) >> 16 : 0U;
    return fabsf(v) < 1.0F ? 0U : bits;
  }
  static __device__ __forceinline__ float join(float first, float second) { return fmaf(second, 0x1p127F, first); }
};

template <>
struct Split<__half> {
  static constexpr int kColumns = 1;
  static constexpr float kProduct = 0x1p22F;  // 2^14 of the codes, 2^8 of the scales
  static __device__ __forceinline__ std::uint32_t part(std::uint32_t bits, int) { return bits; }
  static __device__ __forceinline__ float join(float first, float) { return first; }
};

// Shared memory of a block that meets at most `tiles` tiles, for the type with more columns.
constexpr std::int64_t few_smem(int m, std::int64_t groups, std::int64_t tiles) {
  return kMaxWarps * kStages * kBatchBytes + kFewZeros + m * Split<__nv_bfloat16>::kColumns * (groups * 64 + kPad) * 2 +
         (tiles + kMaxWarps) * m * 64;
}

// All of k of every token into shared memory, by the block; zero from k on. `meanwhile` runs once the first loads are
// under way: behind the copies of the weights they would wait for 10 MB of them.
template <class T, int M, class F>
__device__ __forceinline__ void stage_few(const Params& p, std::uint16_t* rows, int row_elements, F&& meanwhile) {
  constexpr int kStride = kMaxWarps * 32 * 8;
  constexpr int kLoads = M == 1 ? 4 : M == 2 ? 2 : 1;  // in flight per token: the latency is paid once
  const auto* x = static_cast<const std::uint16_t*>(p.x);
  const int all = p.groups * 64;
  uint4 v[M][kLoads];
  const auto load = [&](int first) {
#pragma unroll
    for (int token = 0; token < M; ++token)
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int c = first + i * kStride;
        const std::uint16_t* from = x + token * p.x_stride + c;
        const auto two = [&](int e) { return from[e] | static_cast<std::uint32_t>(from[e + 1]) << 16; };
        v[token][i] = c >= p.k    ? make_uint4(0, 0, 0, 0)
                      : p.vectors ? __ldg(reinterpret_cast<const uint4*>(from))
                                  : make_uint4(two(0), two(2), two(4), two(6));
      }
  };
  int c = static_cast<int>(threadIdx.x) * 8;
  load(c);
  meanwhile();
  while (c < all) {
#pragma unroll
    for (int token = 0; token < M; ++token)
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (c + i * kStride >= all) break;
#pragma unroll
        for (int column = 0; column < Split<T>::kColumns; ++column) {
          const auto two = [&](std::uint32_t w) {
            return Split<T>::part(w & 0xFFFFU, column) | Split<T>::part(w >> 16, column) << 16;
          };
          const uint4& from = v[token][i];
          *reinterpret_cast<uint4*>(rows + (token * Split<T>::kColumns + column) * row_elements + c + i * kStride) =
              make_uint4(two(from.x), two(from.y), two(from.z), two(from.w));
        }
      }
    c += kLoads * kStride;
    if (c < all) load(c);
  }
}

// First group of a block's range, counted over all tiles: units of p.unit groups dealt out evenly, in order.
__device__ __forceinline__ int few_begin(const Params& p, int block) {
  return (block * p.block_units + min(block, p.more_blocks)) * p.unit;
}

// The block whose range holds a group.
__device__ __forceinline__ int few_owner(const Params& p, int group) {
  const int unit = group / p.unit;
  const int of_more = p.more_blocks * (p.block_units + 1);
  return unit < of_more ? unit / (p.block_units + 1) : p.more_blocks + (unit - of_more) / p.block_units;
}

// One warp: the sums of a tile that several blocks share. Lane = row (16 of them); added in block order by the last.
template <int M>
__device__ __noinline__ void meet(const Params& p, const float (&sum)[M], int tile, int lane) {
  const int first = few_owner(p, tile * p.groups);
  const int pieces = few_owner(p, tile * p.groups + p.groups - 1) - first + 1;
  float* parts = reinterpret_cast<float*>(p.partial) + static_cast<std::int64_t>(tile) * p.pieces * M * 16;
  const int piece = static_cast<int>(blockIdx.x) - first;
  if (lane < 16)
    for (int m = 0; m < M; ++m) parts[(piece * M + m) * 16 + lane] = sum[m];
  __threadfence();
  __syncwarp();
  unsigned before = 0;
  if (lane == 0) before = atomicAdd(p.counters + tile, 1U);
  before = __shfl_sync(0xFFFFFFFFU, before, 0);
  if (static_cast<int>(before) + 1 != pieces) return;
  __threadfence();
  if (lane == 0) p.counters[tile] = 0;
  if (lane >= 16) return;
  for (int m = 0; m < M; ++m) {
    float total = __ldcg(parts + m * 16 + lane);
    for (int i = 1; i < pieces; ++i) total += __ldcg(parts + (i * M + m) * 16 + lane);
    store(p, m, tile * 16 + lane, total);
  }
}

// A block owns a range of groups, tile after tile, and deals it out to its warps: each streams one contiguous stretch.
// The sums of a warp's tiles wait in shared memory for the one barrier at the end.
template <class T, int M>
__global__ void __launch_bounds__(kMaxWarps * 32, 1) gemv_few(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) std::uint8_t shared[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int block_begin = few_begin(p, static_cast<int>(blockIdx.x));
  const int block_end = few_begin(p, static_cast<int>(blockIdx.x) + 1);
  const int steps = (block_end - block_begin) / p.step;
  const auto split = [&](int w) { return block_begin + steps * w / kMaxWarps * p.step; };
  const int first_tile = block_begin / p.groups;
  int left = split(warp + 1) - split(warp);
  int tile = split(warp) / p.groups;
  int group = split(warp) - tile * p.groups;

  // Memory: per warp a ring of batches; zeros; elements [M][columns][row_elements]; sums [tile + warp][M][16].
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared + warp * kStages * kBatchBytes));
  std::uint8_t* zeros = shared + kMaxWarps * kStages * kBatchBytes;
  auto* rows = reinterpret_cast<std::uint16_t*>(zeros + kFewZeros);
  const int row_elements = p.groups * 64 + kPad;
  auto* sums = reinterpret_cast<float*>(rows + M * Split<T>::kColumns * row_elements);

  int ahead_left = left;
  int ahead_group = group;
  const std::uint8_t* ahead_codes =
      p.weights + tile * p.tile_bytes + group * weight::kMma16CodeBytes + 16 * weight::mma16_place(lane / 4, lane % 4);
  const std::uint8_t* ahead_scales = p.weights + tile * p.tile_bytes +
                                     static_cast<std::int64_t>(p.groups) * weight::kMma16CodeBytes +
                                     group * weight::kMma16ScaleBytes + 16 * lane;
  // The next batch into the slot at `slot`: up to four groups of one tile, nothing after the last.
  const auto copy = [&](std::uint32_t slot) {
    const int count = min(kBatch, min(p.groups - ahead_group, ahead_left));
    const std::uint32_t to = slot + 16 * lane;
    if (count == kBatch) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        copy_async(to + i * weight::kMma16CodeBytes, ahead_codes + i * weight::kMma16CodeBytes);
    } else {
#pragma unroll 1
      for (int i = 0; i < count; ++i)
        copy_async(to + i * weight::kMma16CodeBytes, ahead_codes + i * weight::kMma16CodeBytes);
    }
    if (lane < count * 4) copy_async(to + kBatchScales, ahead_scales);
    copy_async_commit();
    ahead_left -= count;
    ahead_group += count;
    ahead_codes += count * weight::kMma16CodeBytes;
    ahead_scales += count * weight::kMma16ScaleBytes;
    if (ahead_group == p.groups) {
      ahead_group = 0;
      ahead_codes += static_cast<std::int64_t>(p.groups) * weight::kMma16ScaleBytes;
      ahead_scales += static_cast<std::int64_t>(p.groups) * weight::kMma16CodeBytes;
    }
  };
  if (threadIdx.x < kFewZeros / 16) reinterpret_cast<uint4*>(zeros)[threadIdx.x] = make_uint4(0, 0, 0, 0);
  stage_few<T, M>(p, rows, row_elements, [&] {
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) copy(ring + i * kBatchBytes);
  });

  // ldmatrix q: matrices of steps 2q and 2q + 1, row = column of the operand. A lane has elements in one q at most.
  std::uint32_t x_now[M][2];
  std::uint32_t x_step[2];  // per group
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int step = 2 * q + lane / 16;
    const bool real = lane % 8 / 2 == step && lane % 2 < Split<T>::kColumns;
    x_step[q] = real ? 128 : 0;
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const std::uint16_t* row =
          rows + (m * Split<T>::kColumns + lane % 2) * row_elements + group * 64 + step * 16 + lane / 8 % 2 * 8;
      x_now[m][q] = static_cast<std::uint32_t>(
          __cvta_generic_to_shared(real ? static_cast<const void*>(row) : static_cast<const void*>(zeros)));
    }
  }
  __syncthreads();

  std::uint32_t slot = ring;
  float acc[M][2] = {};
  // One group: `x` bytes past x_now.
  const auto add = [&](const uint4& word, std::uint32_t pair, int x) {
    uint4 b[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int q = 0; q < 2; ++q) b[m][q] = load_matrix(x_now[m][q] + x);
    const std::uint32_t words[4] = {word.x, word.y, word.z, word.w};
    float c[M][4] = {};
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const OperandA a = Arithmetic<T>::codes(words[s]);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const uint4& two = b[m][s / 2];
        Arithmetic<T>::mma(c[m], a, s % 2 == 0 ? two.x : two.z, s % 2 == 0 ? two.y : two.w);
      }
    }
    // ue4m3 bits as fp16 are 2^-8 of the value.
    const std::uint32_t bits = __byte_perm(pair, 0, 0x4140) << 7;
    const float low = __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    const float high = __half2float(__ushort_as_half(static_cast<unsigned short>(bits >> 16)));
#pragma unroll
    for (int m = 0; m < M; ++m) {
      acc[m][0] = fmaf(Split<T>::join(c[m][0], c[m][1]), low, acc[m][0]);
      acc[m][1] = fmaf(Split<T>::join(c[m][2], c[m][3]), high, acc[m][1]);
    }
  };
  const auto advance = [&](int groups) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int q = 0; q < 2; ++q) x_now[m][q] += groups * x_step[q];
  };
#pragma unroll 1
  while (left > 0) {
    const int count = min(kBatch, min(p.groups - group, left));
    copy_async_wait<kStages - 1>();
    __syncwarp();
    const std::uint32_t from = slot + 16 * lane;
    const std::uint32_t from_scales = slot + kBatchScales + 2 * lane;
    if (count == kBatch) {
      uint4 words[kBatch];
      std::uint32_t pairs[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        words[i] = load_shared(from + i * weight::kMma16CodeBytes);
        pairs[i] = load_shared_u16(from_scales + i * weight::kMma16ScaleBytes);
      }
      __syncwarp();
      copy(slot);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) add(words[i], pairs[i], i * 128);
      advance(kBatch);
    } else {
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const uint4 word = load_shared(from + i * weight::kMma16CodeBytes);
        add(word, load_shared_u16(from_scales + i * weight::kMma16ScaleBytes), 0);
        advance(1);
      }
      __syncwarp();
      copy(slot);
    }
    slot = slot == ring + (kStages - 1) * kBatchBytes ? ring : slot + kBatchBytes;
    group += count;
    left -= count;
    if (group == p.groups || left == 0) {
      // The blocks of a quad together.
      float* to = sums + (tile - first_tile + warp) * M * 16;
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float sum = acc[m][r];
          sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
          sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
          if (lane % 4 == 0) to[m * 16 + r * 8 + lane / 4] = sum;
          acc[m][r] = 0.0F;
        }
      advance(-group);
      group = 0;
      ++tile;
    }
  }
  __syncthreads();

  // A warp per tile, a lane per row. Tile t and warp w share slot t + w: along the range one of both grows.
  for (int t = first_tile + warp; t * p.groups < block_end; t += kMaxWarps) {
    const int begin = t * p.groups;
    float sum[M] = {};
    for (int w = 0; w < kMaxWarps; ++w) {
      const int from = split(w);
      const int to = split(w + 1);
      if (from >= to || from >= begin + p.groups || to <= begin) continue;
#pragma unroll
      for (int m = 0; m < M; ++m) sum[m] += sums[((t - first_tile + w) * M + m) * 16 + lane % 16];
    }
    if (begin < block_begin || begin + p.groups > block_end) {
      meet<M>(p, sum, t, lane);
    } else if (lane < 16) {
#pragma unroll
      for (int m = 0; m < M; ++m) store(p, m, t * 16 + lane, sum[m]);
    }
  }
}

}  // namespace tetrad::kernels::sm80
