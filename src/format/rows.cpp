#include "format/rows.hpp"

#include <array>
#include <cfloat>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "format/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// The loops work on one block per lane: a vector holds element i of N neighbouring blocks. Sums over a block then run
// in element order on every target, and nothing depends on the number of lanes. Products and sums stay separate (no
// FMA).
HWY_BEFORE_NAMESPACE();
namespace tetrad::format {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMaxLanes = 16;
constexpr std::uint32_t kAbsMask = 0x7FFFFFFFU;
using DF = hn::CappedTag<float, kMaxLanes>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using DD = hn::CappedTag<double, kMaxLanes / 2>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;

// `count` elements of a row as fp32; `count` is a multiple of 16.
template <class Visit>
void visit_row(const void* row, DType type, std::int64_t count, const Visit& visit) {
  const DF d;
  const std::int64_t step = static_cast<std::int64_t>(hn::Lanes(d));
  if (type == DType::f32) {
    const float* p = static_cast<const float*>(row);
    for (std::int64_t i = 0; i < count; i += step) visit(i, hn::LoadU(d, p + i));
  } else if (type == DType::bf16) {
    const hn::Rebind<std::uint16_t, DF> half;
    const std::uint16_t* p = static_cast<const std::uint16_t*>(row);
    for (std::int64_t i = 0; i < count; i += step) {
      visit(i, hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(DU(), hn::LoadU(half, p + i)))));
    }
  } else {
    const hn::Rebind<hwy::float16_t, DF> half;
    const hwy::float16_t* p = static_cast<const hwy::float16_t*>(row);
    for (std::int64_t i = 0; i < count; i += step) visit(i, hn::PromoteTo(d, hn::LoadU(half, p + i)));
  }
}

HWY_INLINE VU abs_bits(VF x) { return hn::And(hn::BitCast(DU(), x), hn::Set(DU(), kAbsMask)); }

// a <= b for values below 2^31.
HWY_INLINE hn::Mask<DF> at_most(VU a, VU b) {
  return hn::Not(hn::RebindMask(DF(), hn::Lt(hn::BitCast(DI(), b), hn::BitCast(DI(), a))));
}

// fp32 to bf16 and back, to nearest even; finite values.
HWY_INLINE VF round_bf16(VF x) {
  const DU du;
  const VU bits = hn::BitCast(du, x);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const VU rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFU)));
  return hn::BitCast(DF(), hn::And(rounded, hn::Set(du, 0xFFFF0000U)));
}

// Nearest value of e2m1 for y >= 0, saturating (NaN too). 2^22, 2^23 and 2^24 have ulps of 1/2, 1 and 2, the steps of
// e2m1 below 2, below 4 and up to 6: adding them rounds to nearest even.
HWY_INLINE VF round_e2m1(VF y) {
  const DF d;
  const VF clamped = hn::IfThenElse(hn::Lt(y, hn::Set(d, 6.0F)), y, hn::Set(d, 6.0F));
  const VF large = hn::IfThenElse(hn::Lt(clamped, hn::Set(d, 4.0F)), hn::Set(d, 0x1p23F), hn::Set(d, 0x1p24F));
  const VF magic = hn::IfThenElse(hn::Lt(clamped, hn::Set(d, 2.0F)), hn::Set(d, 0x1p22F), large);
  return hn::Sub(hn::Add(clamped, magic), magic);
}

// Code of a value that round_e2m1 gave.
HWY_INLINE VU code_of(VF r) {
  const DF d;
  const DU du;
  // Exponent and first mantissa bit of 1, 1.5, 2, 3, 4, 6 are consecutive.
  const VU normal = hn::Sub(hn::ShiftRight<22>(hn::BitCast(du, r)), hn::Set(du, (127U << 1) - 2U));
  const VU small = hn::BitCast(du, hn::ConvertTo(DI(), hn::Add(r, r)));
  return hn::IfThenElse(hn::RebindMask(du, hn::Lt(r, hn::Set(d, 1.0F))), small, normal);
}

// UE4M3 byte of s >= 0, to nearest even, saturating; NaN gives 0x7F.
HWY_INLINE VU encode_ue4m3(VF s) {
  const DF d;
  const DU du;
  const VF clamped = hn::IfThenElse(hn::Lt(s, hn::Set(d, kUe4m3Max)), s, hn::Set(d, kUe4m3Max));
  const VU bits = hn::BitCast(du, clamped);
  const VU odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(du, 1U));
  const VU rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFFU)));
  const VU normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(du, 120U << 3));
  // 2^14 has an ulp of 2^-9, the step of the subnormals.
  const VF magic = hn::Set(d, 0x1p14F);
  const VU subnormal = hn::Sub(hn::BitCast(du, hn::Add(clamped, magic)), hn::BitCast(du, magic));
  const auto small = hn::RebindMask(du, hn::Lt(clamped, hn::Set(d, 0x1p-6F)));
  const VU byte = hn::IfThenElse(small, subnormal, normal);
  return hn::IfThenElse(hn::RebindMask(du, hn::Eq(s, s)), byte, hn::Set(du, 0x7FU));
}

// Value of a byte below 0x80; 0x7F gives NaN.
HWY_INLINE VF decode_ue4m3(VU byte) {
  const DF d;
  const DU du;
  const VF normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(byte), hn::Set(du, 120U << 23)));
  const VF subnormal = hn::Mul(hn::ConvertTo(d, hn::BitCast(DI(), byte)), hn::Set(d, 0x1p-9F));
  const VF value =
      hn::IfThenElse(hn::RebindMask(d, hn::Lt(hn::BitCast(DI(), byte), hn::Set(DI(), 8))), subnormal, normal);
  const auto nan = hn::RebindMask(d, hn::Eq(byte, hn::Set(du, 0x7FU)));
  return hn::IfThenElse(nan, hn::BitCast(d, hn::Set(du, 0x7FC00000U)), value);
}

template <bool kMultiplier, class V>
HWY_INLINE V apply_global(V exact, V factor) {
  return kMultiplier ? hn::Mul(exact, factor) : hn::Div(exact, factor);
}

// N blocks of a row, transposed: element i of block j at x[i * N + j].
struct Group {
  HWY_ALIGN float x[16 * kMaxLanes];
  HWY_ALIGN float e[16 * kMaxLanes];
};

template <Rule R>
class Encoder {
 public:
  explicit Encoder(const EncodeParams& params)
      : profile_(params.profile), global_(params.global), reciprocal_(1.0F / params.global) {}

  // Scale byte of amax b by the profile's rule, with b mapped to `largest` (6 or 4).
  HWY_INLINE VU scale_byte(VF b, float largest) const {
    const DF d;
    const DU du;
    VF s = b;
    if constexpr (R == Rule::multiplier) {
      s = hn::Div(b, hn::Set(d, largest * global_));
    } else if constexpr (R == Rule::divisor_reciprocal) {
      const VF sixth = hn::Div(b, hn::Set(d, largest));
      s = hn::Mul(hn::Set(d, global_), profile_.work == DType::bf16 ? round_bf16(sixth) : sixth);
    } else {
      s = hn::Mul(b, hn::Set(d, global_ * (1.0F / largest)));
    }
    const auto zero = hn::RebindMask(du, hn::Eq(s, hn::Zero(d)));
    const VF floor = hn::Set(d, profile_.floor);
    const VU cast = encode_ue4m3(hn::IfThenElse(hn::Lt(s, floor), floor, s));
    const VU byte =
        hn::IfThenElse(hn::Eq(cast, hn::Zero(du)), hn::Set(du, std::uint32_t{profile_.underflow_scale}), cast);
    return hn::IfThenElse(zero, hn::Set(du, std::uint32_t{profile_.zero_scale}), byte);
  }

  // What elements are divided by (or, for divisor_quotient, multiplied with) for a scale of value s8.
  HWY_INLINE VF step(VF s8) const {
    const DF d;
    if constexpr (R == Rule::multiplier) {
      return hn::Mul(s8, hn::Set(d, global_));
    } else if constexpr (R == Rule::divisor_reciprocal) {
      return hn::Div(s8, hn::Set(d, global_));
    } else {
      const VF quotient = hn::Div(hn::Set(d, 1.0F), hn::Mul(s8, hn::Set(d, reciprocal_)));
      const VF largest = hn::Set(d, FLT_MAX);
      return hn::IfThenElse(hn::Gt(quotient, largest), largest, quotient);
    }
  }

  HWY_INLINE VF scaled(VF magnitude, VF step) const {
    return R == Rule::divisor_quotient ? hn::Mul(magnitude, step) : hn::Div(magnitude, step);
  }

  // Sum of squared errors of a group in units of the global scale.
  HWY_INLINE VF squared_error(const Group& group, VU byte) const {
    const DF d;
    const std::size_t lanes = hn::Lanes(d);
    const VF s8 = decode_ue4m3(byte);
    const VF by = step(s8);
    VF sum = hn::Zero(d);
    for (std::size_t i = 0; i < 16; ++i) {
      const VF y = scaled(hn::Abs(hn::Load(d, group.x + i * lanes)), by);
      const VF error = hn::Sub(y, round_e2m1(y));
      sum = hn::Add(sum, hn::Mul(error, error));
    }
    return hn::Mul(sum, hn::Mul(s8, s8));
  }

  // amax / 4 where its squared error is smaller than that of amax / 6. Adds the number of such blocks among `valid`.
  HWY_INLINE VU four_over_six(const Group& group, VF b, std::size_t valid, std::int64_t& over_four) const {
    const DU du;
    const VU six = scale_byte(b, 6.0F);
    const VU four = scale_byte(b, 4.0F);
    const auto better = hn::RebindMask(du, hn::Lt(squared_error(group, four), squared_error(group, six)));
    over_four += static_cast<std::int64_t>(hn::CountTrue(du, hn::And(better, hn::FirstN(du, valid))));
    return hn::IfThenElse(better, four, six);
  }

  // The scale of the smallest squared error. From the rounded amax / 6 the search goes
  //  - up while s <= amax / 3.5: for a larger s no code exceeds 3, and the grid of s / 2 holds every value of the grid
  //  of s
  //    up to 3 s. Bytes up to 15 (odd multiples of 2^-9 below 2^-5) may have no half, so these are always tried;
  //  - down while the amax alone, clipped to 6 s, costs less than the best sum so far.
  HWY_INLINE VU search(const Group& group, VF b) const {
    const DF d;
    const DU du;
    const VU one = hn::Set(du, 1U);
    VU best = scale_byte(b, 6.0F);
    const VU start = best;
    VF best_error = squared_error(group, best);
    const auto positive = hn::Gt(b, hn::Zero(d));
    const VF bound = hn::Div(b, hn::Set(d, 3.5F * global_));
    const VU highest = hn::Min(hn::Max(encode_ue4m3(bound), hn::Set(du, 15U)), hn::Set(du, 0x7EU));
    for (VU byte = hn::Add(start, one);; byte = hn::Add(byte, one)) {
      const auto active = hn::And(at_most(byte, highest), positive);
      if (hn::AllFalse(d, active)) break;
      take_better(group, hn::Min(byte, highest), active, best, best_error);
    }
    const VF amax = hn::Div(b, hn::Set(d, global_));
    for (VU byte = hn::Sub(start, one);; byte = hn::Sub(byte, one)) {
      // Lanes that are done may wrap below 0; they stay inactive.
      const VU used = hn::Min(hn::Max(byte, one), hn::Set(du, 0x7EU));
      const VF clipped = hn::Max(hn::Sub(amax, hn::Mul(hn::Set(d, 6.0F), decode_ue4m3(used))), hn::Zero(d));
      const auto in_range = hn::RebindMask(d, hn::Eq(used, byte));
      const auto active = hn::And(in_range, hn::And(positive, hn::Lt(hn::Mul(clipped, clipped), best_error)));
      if (hn::AllFalse(d, active)) break;
      take_better(group, used, active, best, best_error);
    }
    return best;
  }

  std::uint32_t row(const EncodeParams& params, const void* source, std::int64_t cols, std::uint8_t* codes,
                    std::uint8_t* scales, RowStats* stats) const {
    const DF d;
    const DU du;
    const std::size_t lanes = hn::Lanes(d);
    const std::int64_t blocks = cols / kBlock;
    const std::size_t element_bytes = static_cast<std::size_t>(bits(params.type)) / 8;
    HWY_ALIGN float linear[16 * kMaxLanes] = {};
    HWY_ALIGN std::uint32_t words[2 * kMaxLanes];
    HWY_ALIGN std::uint32_t bytes[kMaxLanes];
    Group group;
    std::uint32_t largest = 0;
    const auto stride = hn::Mul(hn::Iota(DI(), 0), hn::Set(DI(), kBlock));
    for (std::int64_t first = 0; first < blocks; first += static_cast<std::int64_t>(lanes)) {
      const std::size_t valid = static_cast<std::size_t>(HWY_MIN(static_cast<std::int64_t>(lanes), blocks - first));
      if (valid < lanes) std::memset(linear, 0, sizeof(linear));
      visit_row(static_cast<const char*>(source) + static_cast<std::size_t>(first) * kBlock * element_bytes,
                params.type, static_cast<std::int64_t>(valid) * kBlock,
                [&](std::int64_t i, VF v) { hn::StoreU(v, d, linear + i); });
      VU amax_bits = hn::Zero(du);
      for (std::size_t i = 0; i < 16; ++i) {
        const VF x = hn::GatherIndex(d, linear + i, stride);
        hn::Store(x, d, group.x + i * lanes);
        amax_bits = hn::Max(amax_bits, abs_bits(x));
      }
      largest = HWY_MAX(largest, hn::GetLane(hn::MaxOfLanes(du, amax_bits)));
      const VF b = hn::BitCast(d, amax_bits);

      std::int64_t over_four = 0;
      VU byte = hn::Zero(du);
      switch (profile_.method) {
        case QuantMethod::rtn:
          byte = scale_byte(b, 6.0F);
          break;
        case QuantMethod::four_over_six:
          byte = four_over_six(group, b, valid, over_four);
          break;
        case QuantMethod::search:
          byte = search(group, b);
          break;
      }
      VU low = hn::Zero(du);
      VU high = hn::Zero(du);
      emit(group, byte, low, high, stats != nullptr);
      hn::StoreInterleaved2(low, high, du, words);
      hn::Store(byte, du, bytes);
      std::memcpy(codes + first * 8, words, valid * 8);
      for (std::size_t j = 0; j < valid; ++j)
        scales[first + static_cast<std::int64_t>(j)] = static_cast<std::uint8_t>(bytes[j]);
      if (stats != nullptr) {
        stats->blocks_over_four += over_four;
        stats->zero_blocks += static_cast<std::int64_t>(
            hn::CountTrue(du, hn::And(hn::Eq(amax_bits, hn::Zero(du)), hn::FirstN(du, valid))));
        add_sums(group, *stats);
      }
    }
    return largest;
  }

 private:
  template <class Mask>
  HWY_INLINE void take_better(const Group& group, VU byte, Mask active, VU& best, VF& best_error) const {
    const VF error = squared_error(group, byte);
    const auto better = hn::And(active, hn::Lt(error, best_error));
    best = hn::IfThenElse(hn::RebindMask(DU(), better), byte, best);
    best_error = hn::IfThenElse(better, error, best_error);
  }

  // Codes 0..7 of each block in `low`, 8..15 in `high`; with `errors`, x minus the decoded value in group.e.
  HWY_INLINE void emit(Group& group, VU byte, VU& low, VU& high, bool errors) const {
    const DF d;
    const DU du;
    const std::size_t lanes = hn::Lanes(d);
    const VF s8 = decode_ue4m3(byte);
    const VF by = step(s8);
    const VU eight = hn::Set(du, 8U);
    for (std::size_t i = 16; i-- > 0;) {
      const VF x = hn::Load(d, group.x + i * lanes);
      const VF y = scaled(hn::Abs(x), by);
      const VF r = round_e2m1(y);
      VU sign = hn::And(hn::ShiftRight<28>(hn::BitCast(du, x)), eight);
      // NaN has no sign.
      sign = hn::IfThenElseZero(hn::RebindMask(du, hn::Eq(y, y)), sign);
      if (!profile_.negative_zero) sign = hn::IfThenElseZero(hn::RebindMask(du, hn::Lt(x, hn::Zero(d))), sign);
      VU& word = i < 8 ? low : high;
      word = hn::Or(hn::ShiftLeft<4>(word), hn::Or(code_of(r), sign));
      if (errors) {
        const VF exact = hn::Mul(r, s8);
        const VF value = apply_global<R == Rule::multiplier>(exact, hn::Set(d, global_));
        hn::Store(hn::Sub(hn::Abs(x), value), d, group.e + i * lanes);
      }
    }
  }

  // Adds the block sums of x^2 and e^2 in block order.
  static void add_sums(const Group& group, RowStats& stats) {
    const DD dd;
    const hn::Rebind<float, DD> narrow;
    const std::size_t lanes = hn::Lanes(DF());
    HWY_ALIGN double squares[kMaxLanes];
    HWY_ALIGN double errors[kMaxLanes];
    for (std::size_t j = 0; j < lanes; j += hn::Lanes(dd)) {
      auto square = hn::Zero(dd);
      auto error = hn::Zero(dd);
      for (std::size_t i = 0; i < 16; ++i) {
        const auto x = hn::PromoteTo(dd, hn::Load(narrow, group.x + i * lanes + j));
        const auto e = hn::PromoteTo(dd, hn::Load(narrow, group.e + i * lanes + j));
        square = hn::Add(square, hn::Mul(x, x));
        error = hn::Add(error, hn::Mul(e, e));
      }
      hn::Store(square, dd, squares + j);
      hn::Store(error, dd, errors + j);
    }
    // Lanes past the row's end hold zeros.
    for (std::size_t j = 0; j < lanes; ++j) {
      stats.sum_squared += squares[j];
      stats.sum_squared_error += errors[j];
    }
  }

  Profile profile_;
  float global_;
  float reciprocal_;
};

std::uint32_t AbsmaxRow(const void* row, DType type, std::int64_t cols) {
  const DU du;
  const std::int64_t whole = cols / kBlock * kBlock;
  VU largest = hn::Zero(du);
  visit_row(row, type, whole, [&](std::int64_t, VF v) { largest = hn::Max(largest, abs_bits(v)); });
  if (whole < cols) {
    const std::size_t element_bytes = static_cast<std::size_t>(bits(type)) / 8;
    HWY_ALIGN float rest[kBlock] = {};
    std::memcpy(rest, static_cast<const char*>(row) + static_cast<std::size_t>(whole) * element_bytes,
                static_cast<std::size_t>(cols - whole) * element_bytes);
    visit_row(rest, type, kBlock, [&](std::int64_t, VF v) { largest = hn::Max(largest, abs_bits(v)); });
  }
  return hn::GetLane(hn::MaxOfLanes(du, largest));
}

std::uint32_t EncodeRow(const EncodeParams& params, const void* row, std::int64_t cols, std::uint8_t* codes,
                        std::uint8_t* scales, RowStats* stats) {
  switch (params.profile.rule) {
    case Rule::divisor_reciprocal:
      return Encoder<Rule::divisor_reciprocal>(params).row(params, row, cols, codes, scales, stats);
    case Rule::divisor_quotient:
      return Encoder<Rule::divisor_quotient>(params).row(params, row, cols, codes, scales, stats);
    case Rule::multiplier:
      break;
  }
  return Encoder<Rule::multiplier>(params).row(params, row, cols, codes, scales, stats);
}

template <bool kMultiplier>
void decode_blocks(const std::uint8_t* codes, const float* scales, std::int64_t blocks, float global, float* out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < blocks * kBlock; ++i) {
    const float exact = e2m1_decode(static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4))) * scales[i / kBlock];
    out[i] = kMultiplier ? exact * global : exact / global;
  }
#else
  const hn::FixedTag<std::uint8_t, 16> d8;
  const hn::FixedTag<std::uint16_t, 8> d16;
  // Not wider than 8 lanes: an operand of the conversion is then one 16-byte store.
  const hn::CappedTag<float, 8> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  // The fp32 values of e2m1 end in 16 zero bits: two tables of bytes give the others.
  alignas(16) static constexpr std::uint8_t kHigh[16] = {0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40,
                                                         0x80, 0xBF, 0xBF, 0xBF, 0xC0, 0xC0, 0xC0, 0xC0};
  alignas(16) static constexpr std::uint8_t kLow[16] = {0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0,
                                                        0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0};
  const auto high_table = hn::Load(d8, kHigh);
  const auto low_table = hn::Load(d8, kLow);
  const auto factor = hn::Set(d, global);
  const auto decode = [&](auto code, std::int64_t block) HWY_ATTR {
    HWY_ALIGN std::uint16_t top[16];
    const auto high = hn::TableLookupBytes(high_table, code);
    const auto low = hn::TableLookupBytes(low_table, code);
    hn::Store(hn::BitCast(d16, hn::InterleaveLower(d8, low, high)), d16, top);
    hn::Store(hn::BitCast(d16, hn::InterleaveUpper(d8, low, high)), d16, top + 8);
    const auto scale = hn::Set(d, scales[block]);
    for (std::size_t i = 0; i < 16; i += hn::Lanes(d)) {
      const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::Load(half, top + i)));
      const auto exact = hn::Mul(hn::BitCast(d, wide), scale);
      hn::StoreU(apply_global<kMultiplier>(exact, factor), d, out + block * kBlock + static_cast<std::int64_t>(i));
    }
  };
  const auto low_nibbles = hn::Set(d8, std::uint8_t{0xF});
  for (std::int64_t block = 0; block < blocks; block += 2) {
    HWY_ALIGN std::uint8_t last[16] = {};
    const bool pair = block + 1 < blocks;
    if (!pair) std::memcpy(last, codes + block * 8, 8);
    const auto bytes = hn::LoadU(d8, pair ? codes + block * 8 : last);
    const auto even = hn::And(bytes, low_nibbles);
    const auto odd = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, bytes))), low_nibbles);
    decode(hn::InterleaveLower(d8, even, odd), block);
    if (pair) decode(hn::InterleaveUpper(d8, even, odd), block + 1);
  }
#endif
}

void DecodeBlocks(const std::uint8_t* codes, const float* scales, std::int64_t blocks, GlobalScale global, float* out) {
  if (global.kind == GlobalScale::Kind::multiplier) {
    decode_blocks<true>(codes, scales, blocks, global.value, out);
  } else {
    decode_blocks<false>(codes, scales, blocks, global.value, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tetrad::format
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad::format {

HWY_EXPORT(AbsmaxRow);
HWY_EXPORT(EncodeRow);
HWY_EXPORT(DecodeBlocks);

std::uint32_t absmax_bits_row(const void* row, DType type, std::int64_t cols) {
  return HWY_DYNAMIC_DISPATCH(AbsmaxRow)(row, type, cols);
}

std::uint32_t encode_row(const EncodeParams& params, const void* row, std::int64_t cols, std::uint8_t* codes,
                         std::uint8_t* scales, RowStats* stats) {
  return HWY_DYNAMIC_DISPATCH(EncodeRow)(params, row, cols, codes, scales, stats);
}

void decode_row(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t blocks, GlobalScale global,
                float* out) {
  static const std::array<float, 256> kScales = [] {
    std::array<float, 256> values{};
    for (int i = 0; i < 256; ++i) values[static_cast<std::size_t>(i)] = ue4m3_decode(static_cast<std::uint8_t>(i));
    return values;
  }();
  constexpr std::int64_t kStrip = 256;
  std::array<float, kStrip> values;
  for (std::int64_t first = 0; first < blocks; first += kStrip) {
    const std::int64_t count = blocks - first < kStrip ? blocks - first : kStrip;
    for (std::int64_t j = 0; j < count; ++j) values[static_cast<std::size_t>(j)] = kScales[scales[first + j]];
    HWY_DYNAMIC_DISPATCH(DecodeBlocks)(codes + first * 8, values.data(), count, global, out + first * kBlock);
  }
}

}  // namespace tetrad::format
#endif  // HWY_ONCE
