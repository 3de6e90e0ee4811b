// Rates of the quantisers and of decoding, one thread. bytes_per_second counts BF16 input (quantise, absmax) or fp32
// output (dequantise).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "tetrad/nvfp4.hpp"

namespace {

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kCols = 4096;

std::vector<std::uint16_t> weights() {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<std::uint16_t> values(kRows * kCols);
  for (std::uint16_t& value : values) value = tetrad::f32_to_bf16(normal(bits));
  return values;
}

const std::vector<std::uint16_t>& source_values() {
  static const std::vector<std::uint16_t> values = weights();
  return values;
}

tetrad::ConstMatrix source() { return {source_values().data(), tetrad::DType::bf16, kRows, kCols, kCols}; }

struct Packed {
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(kRows * kCols / 2);
  std::vector<std::uint8_t> scales = std::vector<std::uint8_t>(kRows * kCols / tetrad::kBlock);
};

void quantize(benchmark::State& state, tetrad::QuantMethod method, bool with_stats) {
  const float global = tetrad::global_scale_for(tetrad::absmax(source(), 1).value(), method);
  Packed out;
  tetrad::QuantStats stats;
  for (auto _ : state) {
    const tetrad::Status status = tetrad::quantize(source(), global, method, out.codes.data(), out.scales.data(),
                                                   with_stats ? &stats : nullptr, 1);
    if (!status) state.SkipWithError(status.error().what.c_str());
    benchmark::DoNotOptimize(out.codes.data());
  }
  state.SetBytesProcessed(state.iterations() * kRows * kCols * 2);
}

void absmax(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(tetrad::absmax(source(), 1).value());
  state.SetBytesProcessed(state.iterations() * kRows * kCols * 2);
}

void dequantize(benchmark::State& state, tetrad::GlobalScale::Kind kind) {
  Packed packed;
  const float global = tetrad::global_scale_for(tetrad::absmax(source(), 1).value(), tetrad::QuantMethod::rtn);
  if (!tetrad::quantize(source(), global, tetrad::QuantMethod::rtn, packed.codes.data(), packed.scales.data(), nullptr,
                        1)) {
    std::abort();
  }
  tetrad::QuantizedTensor view;
  view.rows = kRows;
  view.k = kCols;
  view.codes = packed.codes.data();
  view.code_stride = kCols / 2;
  view.scales = packed.scales.data();
  view.scale_stride = kCols / tetrad::kBlock;
  view.global = {kind == tetrad::GlobalScale::Kind::multiplier ? global : 1.0F / global, kind};
  std::vector<float> out(kRows * kCols);
  for (auto _ : state) {
    tetrad::dequantize(view, out.data(), 1);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * kRows * kCols * 4);
}

BENCHMARK_CAPTURE(quantize, rtn, tetrad::QuantMethod::rtn, false);
BENCHMARK_CAPTURE(quantize, four_over_six, tetrad::QuantMethod::four_over_six, false);
BENCHMARK_CAPTURE(quantize, search, tetrad::QuantMethod::search, false);
BENCHMARK_CAPTURE(quantize, rtn_with_stats, tetrad::QuantMethod::rtn, true);
BENCHMARK_CAPTURE(quantize, search_with_stats, tetrad::QuantMethod::search, true);
BENCHMARK(absmax);
BENCHMARK_CAPTURE(dequantize, multiplier, tetrad::GlobalScale::Kind::multiplier);
BENCHMARK_CAPTURE(dequantize, divisor, tetrad::GlobalScale::Kind::divisor);

}  // namespace

BENCHMARK_MAIN();
