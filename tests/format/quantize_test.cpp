#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <string>

#include "format/rows.hpp"
#include "tetrad/nvfp4.hpp"
#include "vectors.hpp"

namespace tetrad {
namespace {

constexpr std::array kMethods = {QuantMethod::rtn, QuantMethod::four_over_six, QuantMethod::search};

std::vector<float> gaussian(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto uniform = [&] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

// Blocks of every kind: Gaussian, zero, -0, one large value, scales that underflow, exact ties, tiny.
std::vector<float> mixed(std::size_t blocks, std::uint64_t seed) {
  std::vector<float> x = gaussian(blocks * 16, seed);
  for (std::size_t block = 0; block < blocks; ++block) {
    float* p = &x[block * 16];
    for (std::size_t i = 0; i < 16; ++i) {
      switch (block % 9) {
        case 1:
          p[i] = 0.0F;
          break;
        case 2:
          p[i] = i % 2 == 0 ? -0.0F : p[i];
          break;
        case 3:
          p[i] = i == block % 16 ? 5.0F : p[i] * 0.01F;
          break;
        case 4:
          p[i] *= 0x1p-16F;
          break;
        case 5:
          p[i] *= 0x1p-12F;
          break;
        case 6:
          p[i] = std::round(p[i] * 4.0F) / 4.0F;
          break;
        default:
          break;
      }
    }
  }
  return x;
}

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  QuantStats stats;
  bool operator==(const Quantized& other) const {
    return codes == other.codes && scales == other.scales && stats.sum_squared == other.stats.sum_squared &&
           stats.sum_squared_error == other.stats.sum_squared_error && stats.blocks == other.stats.blocks &&
           stats.blocks_over_four == other.stats.blocks_over_four && stats.zero_blocks == other.stats.zero_blocks;
  }
};

Quantized run(const ConstMatrix& source, float global, QuantMethod method, int threads = 0) {
  Quantized out;
  out.codes.resize(static_cast<std::size_t>(source.rows * source.cols / 2));
  out.scales.resize(static_cast<std::size_t>(source.rows * source.cols / 16));
  const Status status = quantize(source, global, method, out.codes.data(), out.scales.data(), &out.stats, threads);
  EXPECT_TRUE(status.has_value());
  return out;
}

QuantizedTensor view_of(const Quantized& q, std::int64_t rows, std::int64_t k, float global) {
  QuantizedTensor view;
  view.rows = rows;
  view.k = k;
  view.codes = q.codes.data();
  view.code_stride = k / 2;
  view.scales = q.scales.data();
  view.scale_stride = k / 16;
  view.global = {global, GlobalScale::Kind::multiplier};
  return view;
}

// The published arithmetic, one element at a time. A scale's error is the sum of (|x| / step - code value)^2 * s8^2.
struct Scalar {
  float global;

  static std::uint8_t cast(float s) { return s == 0.0F ? 0x38 : ue4m3_encode(std::fmax(s, 0x1p-9F)); }
  std::uint8_t scale(float amax, float largest) const { return cast(amax / (largest * global)); }
  std::uint8_t code(float x, std::uint8_t scale) const { return e2m1_encode(x / (ue4m3_decode(scale) * global)); }
  float error(const float* x, std::uint8_t scale) const {
    const float s8 = ue4m3_decode(scale);
    float sum = 0.0F;
    for (int i = 0; i < 16; ++i) {
      const float y = std::fabs(x[i]) / (s8 * global);
      const float e = y - e2m1_decode(e2m1_encode(y));
      sum += e * e;
    }
    return sum * (s8 * s8);
  }
  std::uint8_t choose(const float* x, QuantMethod method) const {
    float amax = 0.0F;
    for (int i = 0; i < 16; ++i) amax = std::fmax(amax, std::fabs(x[i]));
    const std::uint8_t six = scale(amax, 6.0F);
    if (method == QuantMethod::rtn) return six;
    if (method == QuantMethod::four_over_six) {
      const std::uint8_t four = scale(amax, 4.0F);
      return error(x, four) < error(x, six) ? four : six;
    }
    std::uint8_t best = six;
    for (int byte = 1; byte < 0x7F; ++byte) {
      if (error(x, static_cast<std::uint8_t>(byte)) < error(x, best)) best = static_cast<std::uint8_t>(byte);
    }
    return best;
  }
};

TEST(Quantize, AgreesWithScalarArithmetic) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kCols = 16 * 67;
  const std::vector<float> x = mixed(kRows * kCols / 16, 5);
  const ConstMatrix source = matrix_of(x.data(), kRows, kCols);
  for (const QuantMethod method : kMethods) {
    const float global = global_scale_for(absmax(source).value(), method);
    const Scalar scalar{global};
    const Quantized got = run(source, global, method);
    for (std::size_t block = 0; block < got.scales.size(); ++block) {
      const float* p = &x[block * 16];
      const std::uint8_t scale = got.scales[block];
      const std::uint8_t want = scalar.choose(p, method);
      if (method == QuantMethod::search) {
        // Equal sums may come from several scales.
        EXPECT_LE(scalar.error(p, scale), scalar.error(p, want) * (1 + 1e-5F)) << "block " << block;
      } else {
        EXPECT_EQ(scale, want) << name(method) << " block " << block;
      }
      for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_EQ((got.codes[block * 8 + i / 2] >> (i % 2 * 4)) & 0xF, scalar.code(p[i], scale)) << "block " << block;
      }
    }
  }
}

// Small ranges of global leave the scales among the subnormals, or saturated at 448.
TEST(Quantize, SearchFindsTheBestOfAllScales) {
  for (const float global : {1e-3F, 0.02F, 1.0F, 40.0F, 300.0F}) {
    const std::vector<float> x = mixed(400, 77);
    const Quantized got = run(matrix_of(x.data(), 4, 1600), global, QuantMethod::search);
    const Scalar scalar{global};
    for (std::size_t block = 0; block < got.scales.size(); ++block) {
      const float* p = &x[block * 16];
      const float best = scalar.error(p, scalar.choose(p, QuantMethod::search));
      EXPECT_LE(scalar.error(p, got.scales[block]), best * (1 + 1e-5F)) << "global " << global << " block " << block;
    }
  }
}

TEST(Quantize, GaussianErrorOfEachMethod) {
  constexpr std::int64_t kRows = 1024;
  constexpr std::int64_t kCols = 4096;
  const std::vector<float> x = gaussian(kRows * kCols, 1);
  const ConstMatrix source = matrix_of(x.data(), kRows, kCols);
  const float amax = absmax(source).value();
  const double want[] = {0.00905, 0.00756, 0.00659};
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    const float global = global_scale_for(amax, kMethods[i]);
    const Quantized got = run(source, global, kMethods[i]);
    const double mse = got.stats.sum_squared_error / got.stats.sum_squared;
    EXPECT_NEAR(mse, want[i], 0.01 * want[i]) << name(kMethods[i]);
    EXPECT_EQ(got.stats.blocks, kRows * kCols / 16);
    if (kMethods[i] == QuantMethod::four_over_six) {
      EXPECT_NEAR(static_cast<double>(got.stats.blocks_over_four) / static_cast<double>(got.stats.blocks), 0.45, 0.02);
    } else {
      EXPECT_EQ(got.stats.blocks_over_four, 0);
    }
    // The statistics are those of the values that a reader gets.
    std::vector<float> back(x.size());
    dequantize(view_of(got, kRows, kCols, global), back.data());
    double error = 0.0;
    for (std::size_t j = 0; j < x.size(); ++j) error += (double{x[j]} - back[j]) * (double{x[j]} - back[j]);
    EXPECT_NEAR(got.stats.sum_squared_error, error, 1e-6 * error);
  }
}

TEST(Quantize, FourOverSixVector) {
  std::array<float, 16> x{};
  for (std::size_t i = 0; i < 16; ++i) x[i] = 10.0F * static_cast<float>(1 + i % 4);
  const float global = global_scale_for(40.0F, QuantMethod::four_over_six);
  const Quantized four = run(matrix_of(x.data(), 1, 16), global, QuantMethod::four_over_six);
  EXPECT_EQ(four.scales, hex_bytes("7c"));
  EXPECT_EQ(four.codes, hex_bytes("4265426542654265"));
  EXPECT_EQ(four.stats.blocks_over_four, 1);
  EXPECT_NEAR(four.stats.sum_squared_error, 0.0, 1e-9);
  const Quantized six = run(matrix_of(x.data(), 1, 16), global, QuantMethod::rtn);
  EXPECT_EQ(six.scales, hex_bytes("78"));
  EXPECT_EQ(six.codes, hex_bytes("5376537653765376"));
  EXPECT_NEAR(six.stats.sum_squared_error, 4 * 11.11, 0.01);
}

// Every compiled target of this CPU, scalar included, gives the same bytes and sums.
TEST(Quantize, EveryTargetGivesTheSameBits) {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kCols = 16 * 41;
  const std::vector<float> x = mixed(kRows * kCols / 16, 9);
  std::vector<std::uint16_t> bf16(x.size());
  std::vector<std::uint16_t> f16(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    bf16[i] = f32_to_bf16(x[i]);
    f16[i] = f32_to_f16(x[i]);
  }
  const ConstMatrix sources[] = {matrix_of(x.data(), kRows, kCols),
                                 {bf16.data(), DType::bf16, kRows, kCols, kCols},
                                 {f16.data(), DType::f16, kRows, kCols, kCols}};
  const format::Profile profiles[] = {format::kModelOpt, format::kCompressedTensorsBf16, format::kCompressedTensorsF32,
                                      format::kTransformerEngine};
  struct Outcome {
    std::vector<Quantized> quantized;
    std::vector<std::vector<float>> decoded;
    std::vector<float> amax;
  };
  const auto outcome = [&] {
    Outcome all;
    for (const ConstMatrix& source : sources) {
      all.amax.push_back(absmax(source).value());
      for (const QuantMethod method : kMethods) {
        const float global = global_scale_for(all.amax.back(), method);
        all.quantized.push_back(run(source, global, method));
        for (const auto kind : {GlobalScale::Kind::multiplier, GlobalScale::Kind::divisor}) {
          QuantizedTensor view = view_of(all.quantized.back(), kRows, kCols, global);
          view.global.kind = kind;
          all.decoded.emplace_back(x.size());
          dequantize(view, all.decoded.back().data());
        }
      }
      for (const format::Profile& profile : profiles) {
        Quantized q = all.quantized.back();
        const float global = format::profile_global(profile, all.amax.back()).value;
        format::profile_encode(profile, source, global, q.codes.data(), q.scales.data());
        all.quantized.push_back(q);
      }
    }
    return all;
  };
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  const Outcome want = outcome();
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const Outcome got = outcome();
    EXPECT_TRUE(got.quantized == want.quantized) << hwy::TargetName(target);
    EXPECT_TRUE(got.decoded == want.decoded) << hwy::TargetName(target);
    EXPECT_TRUE(got.amax == want.amax) << hwy::TargetName(target);
    // Every finite f16 and bf16 arrives as the fp32 value that it names.
    for (std::uint32_t first = 0; first < 65536; first += 16) {
      std::array<std::uint16_t, 16> patterns{};
      float f16_amax = 0.0F;
      float bf16_amax = 0.0F;
      for (std::uint32_t i = 0; i < 16; ++i) {
        patterns[i] = static_cast<std::uint16_t>(first + i);
        f16_amax = std::fmax(f16_amax, std::fabs(f16_to_f32(patterns[i])));
        bf16_amax = std::fmax(bf16_amax, std::fabs(bf16_to_f32(patterns[i])));
      }
      if ((first & 0x7FFF) < 0x7C00) {
        ASSERT_EQ(format::absmax_bits_row(patterns.data(), DType::f16, 16), std::bit_cast<std::uint32_t>(f16_amax));
      }
      if ((first & 0x7FFF) < 0x7F80) {
        ASSERT_EQ(format::absmax_bits_row(patterns.data(), DType::bf16, 16), std::bit_cast<std::uint32_t>(bf16_amax));
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  RecordProperty("targets", static_cast<int>(targets.size()));
  EXPECT_GE(targets.size(), 2U) << "scalar and at least one vector target";
}

TEST(Quantize, ThreadsDoNotChangeAnything) {
  const std::vector<float> x = mixed(64 * 64, 21);
  const ConstMatrix source = matrix_of(x.data(), 64, 1024);
  for (const QuantMethod method : kMethods) {
    EXPECT_TRUE(run(source, 0.002F, method, 1) == run(source, 0.002F, method, 2));
  }
}

TEST(Quantize, RowStrideIsHonoured) {
  const std::vector<float> x = gaussian(4 * 100, 3);
  const ConstMatrix wide{x.data(), DType::f32, 4, 48, 100};
  std::vector<float> dense;
  for (std::size_t row = 0; row < 4; ++row) dense.insert(dense.end(), &x[row * 100], &x[row * 100 + 48]);
  EXPECT_TRUE(run(wide, 0.001F, QuantMethod::rtn) == run(matrix_of(dense.data(), 4, 48), 0.001F, QuantMethod::rtn));
}

TEST(Quantize, ZerosAndTinyValues) {
  std::vector<float> zeros(64, 0.0F);
  zeros[5] = -0.0F;
  const ConstMatrix source = matrix_of(zeros.data(), 2, 32);
  EXPECT_EQ(absmax(source).value(), 0.0F);
  for (const QuantMethod method : kMethods) {
    const Quantized got = run(source, global_scale_for(0.0F, method), method);
    EXPECT_EQ(got.stats.zero_blocks, 4);
    EXPECT_EQ(got.stats.sum_squared_error, 0.0);
    for (const std::uint8_t scale : got.scales) EXPECT_LT(scale, 0x7F);
    EXPECT_EQ(got.codes[2], 0x80) << "-0 stays -0";
  }
  // The smallest fp32 values: finite scales, finite values back.
  std::vector<float> tiny(32, std::numeric_limits<float>::denorm_min());
  const float amax = absmax(matrix_of(tiny.data(), 1, 32)).value();
  for (const QuantMethod method : kMethods) {
    const float global = global_scale_for(amax, method);
    const Quantized got = run(matrix_of(tiny.data(), 1, 32), global, method);
    std::vector<float> back(32);
    dequantize(view_of(got, 1, 32, global), back.data());
    for (const float value : back) EXPECT_EQ(std::fabs(value), 0.0F);
  }
  // The largest: no overflow on the way.
  std::vector<float> huge(32, -std::numeric_limits<float>::max());
  for (const QuantMethod method : kMethods) {
    const float global = global_scale_for(std::numeric_limits<float>::max(), method);
    const Quantized got = run(matrix_of(huge.data(), 1, 32), global, method);
    for (const std::uint8_t scale : got.scales) EXPECT_LT(scale, 0x7F);
    std::vector<float> back(32);
    dequantize(view_of(got, 1, 32, global), back.data());
    for (const float value : back) EXPECT_NEAR(value / huge[0], 1.0F, 1e-6F);
  }
}

TEST(Quantize, SubnormalScalesKeepTheirValues) {
  std::vector<float> x(32, 0.0F);
  x[0] = 2688.0F;
  for (std::size_t i = 16; i < 32; ++i) x[i] = 0x1p-9F * 3 * 4.0F;  // scale 3 * 2^-9 (subnormal), code for 4
  const Quantized got = run(matrix_of(x.data(), 1, 32), 1.0F, QuantMethod::search);
  EXPECT_LT(got.scales[1], 8) << "a subnormal scale";
  EXPECT_EQ(got.stats.sum_squared_error, 0.0);
}

TEST(Quantize, NonFiniteIsRefusedWithItsPosition) {
  const float bad[] = {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  const char* want[] = {"NaN", "NaN", "Inf", "-Inf"};
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<float> x = gaussian(9 * 80, 4);
    x[7 * 80 + 79] = bad[(kind + 1) % 4];
    x[3 * 80 + 17] = bad[kind];
    const ConstMatrix source = matrix_of(x.data(), 9, 80);
    std::vector<std::uint8_t> codes(9 * 40);
    std::vector<std::uint8_t> scales(9 * 5);
    for (const QuantMethod method : kMethods) {
      const Status status = quantize(source, 1.0F, method, codes.data(), scales.data());
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().kind, ErrorKind::input);
      EXPECT_EQ(status.error().where, "row 3, column 17");
      EXPECT_EQ(status.error().have, want[kind]);
    }
    const Result<float> amax = absmax(source);
    ASSERT_FALSE(amax.has_value());
    EXPECT_EQ(amax.error().where, "row 3, column 17");
  }
}

TEST(Quantize, AbsmaxLooksAtEveryColumn) {
  for (const std::int64_t cols : {1, 5, 15, 16, 17, 33}) {
    for (std::int64_t at = 0; at < cols; ++at) {
      std::vector<float> x(static_cast<std::size_t>(2 * cols), 0.25F);
      x[static_cast<std::size_t>(cols + at)] = -7.0F;
      EXPECT_EQ(absmax(matrix_of(x.data(), 2, cols)).value(), 7.0F);
      x[static_cast<std::size_t>(cols + at)] = std::nanf("");
      EXPECT_FALSE(absmax(matrix_of(x.data(), 2, cols)).has_value());
    }
  }
}

TEST(Quantize, BadArgumentsAreRefused) {
  const std::vector<float> x(48, 1.0F);
  std::array<std::uint8_t, 24> codes{};
  std::array<std::uint8_t, 3> scales{};
  const auto id = [&](const ConstMatrix& source, float global) {
    const Status status = quantize(source, global, QuantMethod::rtn, codes.data(), scales.data());
    return status.has_value() ? std::string("accepted") : status.error().id;
  };
  EXPECT_EQ(id(matrix_of(x.data(), 1, 48), 1.0F), "accepted");
  EXPECT_EQ(id(matrix_of(x.data(), 1, 40), 1.0F), "TE0403");
  for (const float global : {0.0F, -1.0F, std::nanf(""), std::numeric_limits<float>::infinity(), 1e-40F}) {
    EXPECT_EQ(id(matrix_of(x.data(), 1, 48), global), "TE0404") << global;
  }
  EXPECT_EQ(id({x.data(), DType::i8, 1, 48, 48}, 1.0F), "TE0401");
  EXPECT_FALSE(absmax({x.data(), DType::i8, 1, 48, 48}).has_value());
}

TEST(Quantize, ActivationsMatchRtnAndPassNaN) {
  std::vector<float> x = mixed(90, 8);
  const ConstMatrix source = matrix_of(x.data(), 3, 480);
  const float global = global_scale_for(absmax(source).value(), QuantMethod::rtn);
  const Quantized want = run(source, global, QuantMethod::rtn);
  Quantized got = want;
  std::fill(got.codes.begin(), got.codes.end(), std::uint8_t{0});
  std::fill(got.scales.begin(), got.scales.end(), std::uint8_t{0});
  quantize_activations(source, global, got.codes.data(), got.scales.data());
  EXPECT_TRUE(got == want);
  x[20] = std::nanf("");
  quantize_activations(source, global, got.codes.data(), got.scales.data());
  EXPECT_EQ(got.scales[1], 0x7F);
  EXPECT_EQ(got.codes[10], 0x77) << "every code of a NaN block is 7";
  EXPECT_EQ(got.scales[0], want.scales[0]);
}

}  // namespace
}  // namespace tetrad
