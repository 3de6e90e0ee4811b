// How producers of NVFP4 compute scales and codes: one encoder, parameterised by a Profile (internal).
#pragma once

#include <cstdint>

#include "tetrad/nvfp4.hpp"

namespace tetrad::format {

// The chain of fp32 operations from amax to codes; b is the amax of a block, s8 its scale byte's value.
enum class Rule : std::uint8_t {
  multiplier,          // g = amax/2688;               s = b/(6 g);          q = x / (s8 g)
  divisor_reciprocal,  // g = T(T(1/amax) 2688);       s = g T(b/6);         q = x / (s8/g)        T = work type
  divisor_quotient,    // g = min(2688/amax, FLT_MAX); s = b (g (1/6));      q = x min(1/(s8 (1/g)), FLT_MAX)
};

struct Profile {
  Rule rule = Rule::multiplier;
  DType work = DType::f32;                // T: f32 or bf16 (divisor_reciprocal only)
  float floor = 0x1p-9F;                  // a non-zero s is raised to this before the cast
  std::uint8_t zero_scale = 0x38;         // byte where s is 0
  std::uint8_t underflow_scale = 0;       // byte where the cast of a non-zero s gives 0
  bool negative_zero = true;              // -0 gives code 8, as the hardware; else 0. Tiny negatives always give 8.
  QuantMethod method = QuantMethod::rtn;  // others: Rule::multiplier only
};

// Ours: ModelOpt's arithmetic, with the hardware's -0 and a global of 1 for amax 0.
constexpr Profile tetrad_profile(QuantMethod method) { return {.method = method}; }
// NVIDIA Model-Optimizer a2fbac7bad8a, quantization/qtensor/nvfp4_tensor.py.
inline constexpr Profile kModelOpt = {.negative_zero = false};
// compressed-tensors ac8e2ba82f4e, quantization/utils/helpers.py: all before the cast in the weight's type.
inline constexpr Profile kCompressedTensorsBf16 = {.rule = Rule::divisor_reciprocal,
                                                   .work = DType::bf16,
                                                   .floor = 0.0F,
                                                   .zero_scale = 0x20,
                                                   .underflow_scale = 0x20,
                                                   .negative_zero = false};
inline constexpr Profile kCompressedTensorsF32 = {.rule = Rule::divisor_reciprocal,
                                                  .work = DType::f32,
                                                  .floor = 0.0F,
                                                  .zero_scale = 0x20,
                                                  .underflow_scale = 0x20,
                                                  .negative_zero = false};
// TransformerEngine d0067d0da6cb, common/cast/nvfp4/core_nvfp4.cuh (and FlashInfer's exact path).
inline constexpr Profile kTransformerEngine = {.rule = Rule::divisor_quotient, .floor = 0.0F, .zero_scale = 0};

// The global scale that the profile derives from a tensor's amax; its kind follows the rule. For amax 0 it is 1.
GlobalScale profile_global(const Profile& profile, float amax);

// Encodes rows of `source` to codes [rows, cols/2] and scales [rows, cols/16], serially. `global` is in the convention
// of the rule. Non-finite input gives what the hardware's conversions give (a NaN block has scale 0x7F).
void profile_encode(const Profile& profile, const ConstMatrix& source, float global, std::uint8_t* codes,
                    std::uint8_t* scales);

}  // namespace tetrad::format
