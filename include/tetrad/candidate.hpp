// What the planner sees of a kernel: needs, limits, cost. Ours and other engines' kernels are described alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/device.hpp"
#include "tetrad/problem.hpp"
#include "tetrad/target.hpp"

namespace tetrad {

// How far a kernel is proven; each step includes the ones before. Read from records, never written by hand.
enum class Evidence : std::uint8_t { declared, built, disassembled, emulated, probed, measured };
std::string_view name(Evidence evidence);

// How the result relates to the exact product of the operands as the kernel sees them.
enum class Accuracy : std::uint8_t {
  exact_sum,  // one rounding at the end
  fp32_sum,   // products exact, sums in fp32 in some order
  rounded,    // operands are rounded once more before the product (activations to 8 or 4 bits, weights to fp8)
};
std::string_view name(Accuracy accuracy);

// The tile a kernel works on; zero where it has none.
struct Tile {
  int m = 0;
  int n = 0;
  int k = 0;
  int stages = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

// The cost model of one candidate (docs/cost-model.md): time = launches * launch_s + smooth max(bytes / (bandwidth *
// memory_efficiency), padded operations / (peak * compute_efficiency)). The two efficiencies are the only fitted
// numbers, per kernel and device; everything else is counted.
struct CostParams {
  Unit unit = Unit::fp32;
  double memory_efficiency = 0.0;   // 0 = unknown
  double compute_efficiency = 0.0;  // 0 = unknown
  std::string source;               // "fitted to data/measurements/gb10.json, 2026-11-29", "assumed: ..."
};

struct Candidate {
  std::string name;      // <unit>_<acc>_<technique>[_<tile>], e.g. "sm120_w4a4_omma_128x128x128"; the file's stem
  Target target;         // code that must load on the device
  Acc acc = Acc::w4a16;  // precision of the activations inside
  Unit unit = Unit::fp32;
  std::vector<Feature> features;                // all are required
  std::vector<DType> a_types;                   // activation types accepted
  std::vector<DType> w_types = {DType::nvfp4};  // weight types accepted
  std::vector<DType> out_types;
  std::int64_t m_min = 1;
  std::int64_t m_max = 0;  // 0 = no limit
  std::int64_t n_multiple = 1;
  std::int64_t k_multiple = 16;
  bool grouped = false;            // takes groups > 1
  bool bias = false;               // applies a bias
  bool needs_input_scale = false;  // cannot work without a static activation scale
  Tile tile;
  bool swap_ab = false;         // the tile's rows lie along n, its columns along m (narrow tiles for small m)
  std::int64_t smem_bytes = 0;  // per block, as allocated; 0 = none
  std::string smem_source;      // formula or record that smem_bytes comes from
  int launches = 1;             // kernels per call, quantising the activations included
  double workspace_bytes_per_m = 0.0;
  double workspace_bytes_per_nk = 0.0;       // decoded weights, where a library multiplies them
  double weight_bytes_per_element = 0.5625;  // as read by this kernel: 4 bits + 1/16 byte
  double a_bytes_per_element = 0.0;          // activations as read at the start; 0 = the problem's type
  double extra_bytes_per_mk = 0.0;           // written and read again for quantised activations
  bool deterministic = true;
  bool m_invariant = true;  // row i of m rows has the bits of the same row alone
  Accuracy accuracy = Accuracy::fp32_sum;
  bool reference = false;           // an oracle: chosen only when forced
  bool built = false;               // this build holds its code
  std::string digest;               // of its machine code, which its records must name; empty if not built
  CostParams cost;                  // where the device has no fitted one
  std::string stand_in;             // peer whose fitted cost serves until this kernel has its own; empty: none
  double stand_in_scale = 1.0;      // compute efficiency as a multiple of the stand-in's
  std::string layout = "linear/1";  // weight layout it reads
};

}  // namespace tetrad
