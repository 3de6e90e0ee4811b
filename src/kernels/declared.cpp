#include "kernels/declared.hpp"

#include <fmt/format.h>

#include <utility>

namespace tetrad {
namespace {

using Kind = Target::Kind;

// Bytes of one NVFP4 element, its share of the block scale included.
constexpr double kNvFp4Bytes = 0.5625;

Target target(Kind kind, int major, int minor) { return {kind, {major, minor}}; }

CostParams cost(Unit unit, double memory, double compute, std::string source) {
  return {unit, memory, compute, std::move(source)};
}

// What every GPU row shares: 16-bit operands in and out, dense problems, one rounding per fp32 sum.
Candidate row(std::string name, Target code, Acc acc, Unit unit, std::vector<Feature> features) {
  Candidate c;
  c.name = std::move(name);
  c.target = code;
  c.acc = acc;
  c.unit = unit;
  c.features = std::move(features);
  c.a_types = {DType::bf16, DType::f16};
  c.out_types = {DType::bf16, DType::f16};
  c.accuracy = acc == Acc::w4a16 ? Accuracy::fp32_sum : Accuracy::rounded;
  return c;
}

// Shared memory of a ring of `stages`, each with the activations of the tile at `a_bits` and its NVFP4 weights with
// scales.
void ring(Candidate& c, Tile tile, int a_bits) {
  c.tile = tile;
  const auto m = static_cast<std::int64_t>(tile.m);
  const auto n = static_cast<std::int64_t>(tile.n);
  const auto k = static_cast<std::int64_t>(tile.k);
  c.smem_bytes = tile.stages * (m * k * a_bits / 8 + n * k / 2 + n * k / 16);
  c.smem_source = fmt::format("computed: {} stages * (m*k*{}/8 + n*k/2 + n*k/16) of the tile", tile.stages, a_bits);
  c.k_multiple = tile.k;
  c.n_multiple = 16;
}

Candidate gemv() {
  Candidate c = row("sm80_w4a16_gemv", target(Kind::ptx, 8, 0), Acc::w4a16, Unit::bf16, {Feature::mma_bf16});
  c.m_max = 16;
  c.n_multiple = 8;
  c.smem_source = "assumed: weights stream through registers, as in FlashInfer's M=1 kernel; none allocated";
  c.cost = cost(Unit::bf16, 0.89, 0.16,
                "assumed: a trial kernel's 27.7 us at M=1 and 31.0 us at M=8, 34816x5120, H200, 2026-11");
  c.stand_in = "peer:w4a16-cutedsl";
  return c;
}

Candidate w4a16_mma(Tile tile, double compute) {
  Candidate c = row(fmt::format("sm80_w4a16_mma_{}x{}x{}", tile.m, tile.n, tile.k), target(Kind::ptx, 8, 0), Acc::w4a16,
                    Unit::bf16, {Feature::cp_async, Feature::mma_bf16});
  ring(c, tile, 16);
  c.cost = cost(Unit::bf16, 0.80, compute,
                "assumed: Marlin reads at 0.90 of the bandwidth on Jetson Thor; mma.sync loses to decoding");
  c.stand_in = "peer:marlin";
  c.stand_in_scale = compute / 0.60;
  return c;
}

Candidate w4a16_wgmma(Tile tile) {
  Candidate c = row(fmt::format("sm90_w4a16_wgmma_{}x{}x{}", tile.m, tile.n, tile.k), target(Kind::arch, 9, 0),
                    Acc::w4a16, Unit::bf16, {Feature::tma, Feature::wgmma});
  ring(c, tile, 16);
  c.cost = cost(Unit::bf16, 0.60, 0.65, "assumed: as Humming on the H200, data/measurements/h200.json");
  c.stand_in = "peer:humming";
  return c;
}

Candidate w4a8_wgmma(Tile tile) {
  Candidate c = row(fmt::format("sm90_w4a8_wgmma_{}x{}x{}", tile.m, tile.n, tile.k), target(Kind::arch, 9, 0),
                    Acc::w4a8, Unit::fp8, {Feature::tma, Feature::wgmma});
  ring(c, tile, 8);
  c.launches = 2;
  c.extra_bytes_per_mk = 2.0;
  c.workspace_bytes_per_m = 4.0;
  c.cost = cost(Unit::fp8, 0.50, 0.60, "assumed: as torch._scaled_mm FP8 on the H200, data/measurements/h200.json");
  c.stand_in = "peer:fp8";
  return c;
}

Candidate w4a8_mma(std::string unit, Target code, Tile tile) {
  Candidate c = row(fmt::format("{}_w4a8_mma_{}x{}x{}", unit, tile.m, tile.n, tile.k), code, Acc::w4a8, Unit::fp8,
                    {Feature::cp_async, Feature::mma_fp8});
  ring(c, tile, 8);
  c.launches = 2;
  c.extra_bytes_per_mk = 2.0;
  c.workspace_bytes_per_m = 4.0;
  c.cost = cost(Unit::fp8, 0.75, 0.50, "assumed: no kernel of this kind is known for NVFP4 weights");
  return c;
}

// Native FP4. Sizes: sizeof(SharedStorage) of CUTLASS's dense SM120 kernels with void C and a 16-bit result, compiled
// with nvcc 13.0. The narrow tiles hold tokens in their columns, so that few tokens pad to few.
Candidate omma(Tile tile, std::int64_t smem, bool swap_ab, double scale, std::string_view scale_source) {
  Candidate c = row(fmt::format("sm120_w4a4_omma_{}x{}x{}", tile.m, tile.n, tile.k), target(Kind::family, 12, 0),
                    Acc::w4a4, Unit::nvfp4, {Feature::tma, Feature::mma_nvfp4});
  c.tile = tile;
  c.swap_ab = swap_ab;
  c.smem_bytes = smem;
  c.smem_source = "compiled: CUTLASS 4.7 SM120 NVFP4, dense, void C, bf16 result";
  c.n_multiple = 8;
  c.k_multiple = 32;
  c.launches = 2;
  c.extra_bytes_per_mk = 2.0 * kNvFp4Bytes;
  c.workspace_bytes_per_m = 0.0;
  c.cost = cost(Unit::nvfp4, 0.85, 0.80 * scale,
                fmt::format("assumed: 1629 of 2015 TFLOP/s on an RTX PRO 6000 (CUTLASS 3272); {}", scale_source));
  c.stand_in = "peer:w4a4";
  c.stand_in_scale = scale;
  return c;
}

Candidate tcgen05() {
  const Tile tile{128, 256, 256, 3};
  Candidate c = row("sm100_w4a4_tcgen05_128x256x256", target(Kind::family, 10, 0), Acc::w4a4, Unit::nvfp4,
                    {Feature::tma, Feature::tcgen05});
  c.tile = tile;
  constexpr std::int64_t kStage = 128 * 256 / 2 + 256 * 256 / 2 + 128 + 128 * 256 / 16 + 256 * 256 / 16;
  constexpr std::int64_t kEpilogue = 9216;
  constexpr std::int64_t kPipelines = 96;
  c.smem_bytes = tile.stages * kStage + kEpilogue + kPipelines;
  c.smem_source = "computed: 3 stages by CUTLASS's SM100 block-scaled stage account; assumed: 9312 B epilogue";
  c.n_multiple = 8;
  c.k_multiple = 32;
  c.launches = 2;
  c.extra_bytes_per_mk = 2.0 * kNvFp4Bytes;
  c.cost =
      cost(Unit::nvfp4, 0.70, 0.57, "assumed: 5239 of 9000 TFLOP/s, cuBLASLt MXFP4 8192^3 on a B200 (DeepGEMM 348)");
  return c;
}

// A library multiplies weights that were decoded before: the decode reads 0.5625 bytes per weight and writes `wide`,
// which the library reads again.
Candidate vendor(std::string name, Acc acc, Unit unit, int cc_major, int cc_minor, std::vector<Feature> features,
                 double wide) {
  Candidate c = row(std::move(name), target(Kind::ptx, cc_major, cc_minor), acc, unit, std::move(features));
  c.weight_bytes_per_element = kNvFp4Bytes + 2.0 * wide;
  c.workspace_bytes_per_nk = wide;
  c.n_multiple = 16;
  c.smem_source = "the library's own";
  c.m_invariant = false;
  return c;
}

Candidate vendor_bf16() {
  Candidate c = vendor("vendor_w4a16_cublaslt", Acc::w4a16, Unit::bf16, 8, 0, {Feature::mma_bf16}, 2.0);
  c.launches = 2;
  c.cost = cost(Unit::bf16, 0.85, 0.75, "assumed: decoding ran at 4.0 TB/s, cuBLAS at 0.78 of its peak on the H200");
  c.stand_in = "peer:bf16";
  return c;
}

Candidate vendor_fp8() {
  Candidate c = vendor("vendor_w4a8_cublaslt", Acc::w4a8, Unit::fp8, 8, 9, {Feature::mma_fp8}, 1.0);
  c.launches = 3;
  c.extra_bytes_per_mk = 2.0;
  c.workspace_bytes_per_m = 4.0;
  c.cost = cost(Unit::fp8, 0.75, 0.62, "assumed: decoding ran at 4.0 TB/s, _scaled_mm at 0.65 of its peak on the H200");
  c.stand_in = "peer:fp8";
  return c;
}

Candidate vendor_nvfp4() {
  Candidate c = vendor("vendor_w4a4_cublaslt", Acc::w4a4, Unit::nvfp4, 10, 0, {Feature::cvt_e2m1}, 0.0);
  c.tile = {128, 128, 0, 0};  // assumed: the smallest tile that NVIDIA documents for SM100 and SM120
  c.k_multiple = 32;
  c.launches = 2;
  c.extra_bytes_per_mk = 2.0 * kNvFp4Bytes;
  c.cost =
      cost(Unit::nvfp4, 0.80, 0.57, "assumed: 5239 of 9000 TFLOP/s, cuBLASLt MXFP4 8192^3 on a B200 (DeepGEMM 348)");
  c.stand_in = "peer:w4a4";
  return c;
}

}  // namespace

std::vector<Candidate> declared_candidates() {
  constexpr std::string_view kFull = "full tile";
  return {
      gemv(),
      omma({128, 128, 128, 4}, 83968, false, 1.0, kFull),
      omma({256, 128, 128, 3}, 93184, false, 1.0, kFull),
      omma({128, 64, 128, 6}, 96256, true, 0.90, "0.90 for its operand traffic"),
      omma({128, 32, 128, 7}, 96256, true, 0.75, "0.75 for its operand traffic"),
      tcgen05(),
      w4a8_wgmma({128, 256, 128, 4}),
      w4a16_wgmma({128, 256, 64, 4}),
      w4a8_mma("sm120", target(Kind::family, 12, 0), {64, 128, 128, 3}),
      w4a8_mma("sm89", target(Kind::plain, 8, 9), {64, 128, 128, 3}),
      w4a16_mma({64, 256, 64, 3}, 0.60),
      w4a16_mma({16, 256, 64, 4}, 0.30),
      vendor_nvfp4(),
      vendor_fp8(),
      vendor_bf16(),
  };
}

}  // namespace tetrad
