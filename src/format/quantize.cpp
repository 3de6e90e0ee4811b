#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "format/rows.hpp"
#include "tetrad/nvfp4.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad {
namespace {

// Elements that are worth a piece of work of their own.
constexpr std::int64_t kGrainElements = 1 << 15;

std::int64_t row_grain(std::int64_t cols) {
  return cols >= kGrainElements ? 1 : kGrainElements / (cols < 1 ? 1 : cols);
}

const char* row_of(const ConstMatrix& matrix, std::int64_t row) {
  return static_cast<const char*>(matrix.data) + row * (matrix.stride * bits(matrix.type) / 8);
}

bool is_supported(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

Error refusal(std::string id, std::string what, std::string need, std::string have, std::string where = {}) {
  return {ErrorKind::input, std::move(id), std::move(what), std::move(where), std::move(need), std::move(have), {}, {}};
}

Error unsupported(DType type) {
  return refusal("TE0401", "cannot quantise this element type", "f32, bf16 or f16", std::string(name(type)));
}

// The first NaN or Inf in row-major order. Precondition: there is one.
Error non_finite(const ConstMatrix& source) {
  std::int64_t row = 0;
  while (format::absmax_bits_row(row_of(source, row), source.type, source.cols) < format::kInfBits) ++row;
  std::int64_t col = 0;
  while (std::isfinite(element(source, row, col))) ++col;
  const float value = element(source, row, col);
  const std::string have = std::isnan(value) ? "NaN" : (value < 0 ? "-Inf" : "Inf");
  return refusal("TE0402", fmt::format("{} in the matrix", have), "finite values", have,
                 fmt::format("row {}, column {}", row, col));
}

void raise(std::atomic<std::uint32_t>& largest, std::uint32_t value) {
  std::uint32_t seen = largest.load(std::memory_order_relaxed);
  while (seen < value && !largest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

Result<float> absmax(const ConstMatrix& source, int threads) {
  if (!is_supported(source.type)) return unsupported(source.type);
  std::atomic<std::uint32_t> largest{0};
  parallel_for(source.rows, row_grain(source.cols), threads, [&](std::int64_t begin, std::int64_t end, int) {
    std::uint32_t mine = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      mine = std::max(mine, format::absmax_bits_row(row_of(source, row), source.type, source.cols));
    }
    raise(largest, mine);
  });
  if (largest >= format::kInfBits) return non_finite(source);
  return std::bit_cast<float>(largest.load());
}

Status quantize(const ConstMatrix& source, float global, QuantMethod method, std::uint8_t* codes, std::uint8_t* scales,
                QuantStats* stats, int threads) {
  if (!is_supported(source.type)) return unsupported(source.type);
  if (source.cols % kBlock != 0) {
    return refusal("TE0403", "columns do not divide into blocks", "a multiple of 16", std::to_string(source.cols));
  }
  if (!std::isnormal(global) || global < 0.0F) {
    return refusal("TE0404", "global scale out of range", "a positive, finite, normal fp32 value",
                   fmt::format("{}", global));
  }
  const format::EncodeParams params{format::tetrad_profile(method), source.type, global};
  std::atomic<std::uint32_t> largest{0};
  // One entry per row, added in row order at the end: sums do not depend on the threads.
  std::vector<format::RowStats> rows(stats != nullptr ? static_cast<std::size_t>(source.rows) : 0);
  parallel_for(source.rows, row_grain(source.cols), threads, [&](std::int64_t begin, std::int64_t end, int) {
    std::uint32_t mine = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      mine = std::max(mine, format::encode_row(params, row_of(source, row), source.cols,
                                               codes + row * (source.cols / 2), scales + row * (source.cols / kBlock),
                                               stats != nullptr ? &rows[static_cast<std::size_t>(row)] : nullptr));
    }
    raise(largest, mine);
  });
  if (largest >= format::kInfBits) return non_finite(source);
  if (stats != nullptr) {
    *stats = QuantStats{};
    stats->blocks = source.rows * (source.cols / kBlock);
    for (const format::RowStats& row : rows) {
      stats->sum_squared += row.sum_squared;
      stats->sum_squared_error += row.sum_squared_error;
      stats->blocks_over_four += row.blocks_over_four;
      stats->zero_blocks += row.zero_blocks;
    }
  }
  return ok();
}

void dequantize(const QuantizedTensor& tensor, float* out, int threads) {
  const std::int64_t blocks = tensor.k / kBlock;
  parallel_for(tensor.rows, row_grain(tensor.k), threads, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::uint8_t> gathered;
    if (tensor.scale_layout != ScaleLayout::linear) gathered.resize(static_cast<std::size_t>(blocks));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::uint8_t* scales = tensor.scales + row * tensor.scale_stride;
      if (tensor.scale_layout != ScaleLayout::linear) {
        for (std::int64_t block = 0; block < blocks; ++block) {
          gathered[static_cast<std::size_t>(block)] =
              tensor.scales[scale_offset(tensor.scale_layout, row, block, blocks)];
        }
        scales = gathered.data();
      }
      format::decode_row(tensor.codes + row * tensor.code_stride, scales, blocks, tensor.global, out + row * tensor.k);
    }
  });
}

void quantize_activations(const ConstMatrix& x, double global, std::uint8_t* codes, std::uint8_t* scales) {
  format::profile_encode(format::tetrad_profile(QuantMethod::rtn), x, static_cast<float>(global), codes, scales);
}

}  // namespace tetrad
