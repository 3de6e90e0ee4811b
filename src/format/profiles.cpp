#include "format/profiles.hpp"

#include <cfloat>
#include <cmath>

#include "format/rows.hpp"

namespace tetrad::format {
namespace {

float to_work(DType work, float value) { return work == DType::bf16 ? bf16_to_f32(f32_to_bf16(value)) : value; }

}  // namespace

GlobalScale profile_global(const Profile& profile, float amax) {
  using Kind = GlobalScale::Kind;
  constexpr float kLargest = kE2m1Max * kUe4m3Max;
  switch (profile.rule) {
    case Rule::divisor_reciprocal: {
      // The smallest normal number of both work types.
      const float reciprocal = to_work(profile.work, 1.0F / std::fmax(amax, FLT_MIN));
      const float global = to_work(profile.work, reciprocal * kLargest);
      return {std::isfinite(global) ? global : 1.0F, Kind::divisor};
    }
    case Rule::divisor_quotient: {
      const float global = amax == 0.0F ? 1.0F : std::fmin(kLargest / amax, FLT_MAX);
      return {global == 0.0F ? 1.0F : global, Kind::divisor};
    }
    case Rule::multiplier:
      break;
  }
  return {global_scale_for(amax, profile.method), Kind::multiplier};
}

void profile_encode(const Profile& profile, const ConstMatrix& source, float global, std::uint8_t* codes,
                    std::uint8_t* scales) {
  const EncodeParams params{profile, source.type, global};
  const std::int64_t row_bytes = source.stride * bits(source.type) / 8;
  for (std::int64_t row = 0; row < source.rows; ++row) {
    encode_row(params, static_cast<const char*>(source.data) + row * row_bytes, source.cols,
               codes + row * source.cols / 2, scales + row * source.cols / kBlock, nullptr);
  }
}

}  // namespace tetrad::format
