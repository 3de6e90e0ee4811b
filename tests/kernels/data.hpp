// Operands of the kernel tests: NVFP4 weights and activations in strided, poisoned buffers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tetrad/kernels.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"

namespace tetrad::test {

// Weights with `padding` poisoned bytes behind every row of codes (0x77, the largest value) and scales (0x7F, NaN).
struct Weights {
  std::int64_t rows;
  std::int64_t k;
  std::int64_t padding;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  GlobalScale global;
  GlobalScale input_global;

  Weights(std::int64_t n, std::int64_t k_, std::int64_t pad, unsigned seed) : rows(n), k(k_), padding(pad) {
    codes.assign(static_cast<std::size_t>(n * code_stride()), 0x77);
    scales.assign(static_cast<std::size_t>(n * scale_stride()), 0x7F);
    std::mt19937 random(seed);
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t i = 0; i < k / 2; ++i) code(r, i) = static_cast<std::uint8_t>(random());
      for (std::int64_t i = 0; i < k / kBlock; ++i) scale(r, i) = static_cast<std::uint8_t>(0x20 + random() % 0x30);
    }
    global = {0.0123F, GlobalScale::Kind::multiplier};
    input_global = {0.0021F, GlobalScale::Kind::multiplier};
  }

  std::int64_t code_stride() const { return k / 2 + padding; }
  std::int64_t scale_stride() const { return k / kBlock + padding; }
  std::uint8_t& code(std::int64_t r, std::int64_t i) { return codes[static_cast<std::size_t>(r * code_stride() + i)]; }
  std::uint8_t& scale(std::int64_t r, std::int64_t i) {
    return scales[static_cast<std::size_t>(r * scale_stride() + i)];
  }

  QuantizedTensor view() const {
    QuantizedTensor w;
    w.rows = rows;
    w.k = k;
    w.codes = codes.data();
    w.code_stride = code_stride();
    w.scales = scales.data();
    w.scale_stride = scale_stride();
    w.global = global;
    w.input_global = input_global;
    return w;
  }
};

// A dense matrix with a strided row and NaN in the padding.
struct Dense {
  DType type;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
  std::vector<std::uint8_t> bytes;

  Dense(DType t, std::int64_t m, std::int64_t n, std::int64_t padding)
      : type(t), rows(m), cols(n), stride(n + padding) {
    bytes.assign(static_cast<std::size_t>(m * stride * width()), 0xFF);
  }
  std::int64_t width() const { return type == DType::f32 ? 4 : 2; }
  void set(std::int64_t r, std::int64_t c, float value) {
    std::uint8_t* to = bytes.data() + (r * stride + c) * width();
    if (type == DType::f32) {
      std::memcpy(to, &value, 4);
    } else {
      const std::uint16_t bits = type == DType::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
      std::memcpy(to, &bits, 2);
    }
  }
  void fill_normal(unsigned seed, float deviation = 1.0F) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, deviation);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) set(r, c, normal(random));
  }
  ConstMatrix view() const { return {bytes.data(), type, rows, cols, stride}; }
  ConstMatrix rows_view(std::int64_t begin, std::int64_t count) const {
    return {bytes.data() + begin * stride * width(), type, count, cols, stride};
  }
};

// An output with guard bytes before, behind and between its rows.
struct Output {
  static constexpr std::int64_t kGuard = 64;
  static constexpr std::uint8_t kPattern = 0xA5;
  DType type;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
  std::vector<std::uint8_t> bytes;

  Output(DType t, std::int64_t m, std::int64_t n, std::int64_t padding)
      : type(t), rows(m), cols(n), stride(n + padding) {
    bytes.assign(static_cast<std::size_t>(m * stride * width() + 2 * kGuard), kPattern);
  }
  std::int64_t width() const { return type == DType::f32 ? 4 : 2; }
  Matrix view() { return {bytes.data() + kGuard, type, rows, cols, stride}; }
  ConstMatrix result() const { return {bytes.data() + kGuard, type, rows, cols, stride}; }
  bool guards_intact() const {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(bytes.size()); ++i) {
      const std::int64_t at = i - kGuard;
      const bool inside = at >= 0 && at < rows * stride * width() && at / width() % stride < cols;
      if (!inside && bytes[static_cast<std::size_t>(i)] != kPattern) return false;
    }
    return true;
  }
};

}  // namespace tetrad::test
