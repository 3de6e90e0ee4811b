#include "kernels/cpu/row.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "tetrad/parallel.hpp"

namespace tetrad::kernels {
namespace {

constexpr std::uint8_t kNanScale = 0x7F;

Error usage(std::string what, std::string need, std::string have) {
  return Error{ErrorKind::usage, "TE0602", std::move(what), "", std::move(need), std::move(have), {}, ""};
}

bool dense_type(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

std::string shape(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

}  // namespace

std::byte* Scratch::reserve(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  if (memory_.size() < bytes + kLine) memory_.resize(bytes + kLine);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  return memory_.data() + (kLine - address % kLine) % kLine;
}

Status check_weights(std::span<const QuantizedTensor> weights) {
  const auto bad = [](std::string what, std::string need, std::string have) {
    return Error{ErrorKind::input, "TE0601", std::move(what), "", std::move(need), std::move(have), {}, ""};
  };
  if (weights.empty()) return bad("no weights to bind", "at least one tensor", "0");
  const QuantizedTensor& first = weights.front();
  for (const QuantizedTensor& w : weights) {
    if (w.space != MemorySpace::host) return bad("the weights are not in host memory", "host", "device");
    if (w.scale_layout != ScaleLayout::linear) return bad("the scales are not linear", "linear", "swizzled");
    if (w.rows <= 0 || w.k <= 0 || w.k % kBlock != 0)
      return bad("bad weight shape", "n >= 1 and k a positive multiple of 16", shape(w.rows, w.k));
    if (w.rows != first.rows || w.k != first.k)
      return bad("groups have different shapes", shape(first.rows, first.k), shape(w.rows, w.k));
    if (w.codes == nullptr || w.scales == nullptr || w.code_stride < w.k / 2 || w.scale_stride < w.k / kBlock)
      return bad("the weight view is incomplete", "codes, scales and strides that cover a row",
                 "code stride " + std::to_string(w.code_stride) + ", scale stride " + std::to_string(w.scale_stride));
  }
  return ok();
}

Status check_args(std::span<const QuantizedTensor> weights, const MatmulArgs& args) {
  const std::int64_t n = weights.front().rows;
  const std::int64_t k = weights.front().k;
  if (!dense_type(args.x.type)) return usage("activation type", "f32, bf16 or f16", std::string(name(args.x.type)));
  if (!dense_type(args.y.type)) return usage("output type", "f32, bf16 or f16", std::string(name(args.y.type)));
  if (args.x.rows < 0 || args.x.cols != k)
    return usage("activations do not fit the weights", "k " + std::to_string(k), shape(args.x.rows, args.x.cols));
  if (args.y.rows != args.x.rows || args.y.cols != n)
    return usage("the output does not fit", shape(args.x.rows, n), shape(args.y.rows, args.y.cols));
  if (args.x.stride < k || args.y.stride < n)
    return usage("a row stride is shorter than its row", std::to_string(k) + " and " + std::to_string(n),
                 std::to_string(args.x.stride) + " and " + std::to_string(args.y.stride));
  if (args.x.rows > 0 && (args.x.data == nullptr || args.y.data == nullptr))
    return usage("an operand has no data", "x and y", "null");
  if (args.threads < 0) return usage("thread count", "0 or more", std::to_string(args.threads));
  if (args.group_offsets.empty()) {
    if (weights.size() != 1)
      return usage("group offsets are missing", std::to_string(weights.size() + 1) + " offsets", "0");
    return ok();
  }
  if (args.group_offsets.size() != weights.size() + 1)
    return usage("group offsets", std::to_string(weights.size() + 1) + " offsets",
                 std::to_string(args.group_offsets.size()));
  if (args.group_offsets.front() != 0 || args.group_offsets.back() != args.x.rows ||
      !std::is_sorted(args.group_offsets.begin(), args.group_offsets.end()))
    return usage("group offsets", "ascending from 0 to " + std::to_string(args.x.rows),
                 std::to_string(args.group_offsets.front()) + " to " + std::to_string(args.group_offsets.back()));
  return ok();
}

void load_row(const ConstMatrix& matrix, std::int64_t row, float* out) {
  const std::int64_t first = row * matrix.stride;
  if (matrix.type == DType::f32) {
    std::memcpy(out, static_cast<const float*>(matrix.data) + first,
                static_cast<std::size_t>(matrix.cols) * sizeof(float));
    return;
  }
  const auto* bits = static_cast<const std::uint16_t*>(matrix.data) + first;
  if (matrix.type == DType::bf16) {
    for (std::int64_t i = 0; i < matrix.cols; ++i) {
      const std::uint32_t word = static_cast<std::uint32_t>(bits[i]) << 16;
      std::memcpy(out + i, &word, sizeof(word));
    }
  } else {
    for (std::int64_t i = 0; i < matrix.cols; ++i) out[i] = f16_to_f32(bits[i]);
  }
}

void store(const Matrix& y, std::int64_t row, std::int64_t col, double value) {
  const std::int64_t at = row * y.stride + col;
  const auto single = static_cast<float>(value);
  if (y.type == DType::f32)
    static_cast<float*>(y.data)[at] = single;
  else
    static_cast<std::uint16_t*>(y.data)[at] = y.type == DType::bf16 ? f32_to_bf16(single) : f32_to_f16(single);
}

CpuRow::CpuRow(std::span<const QuantizedTensor> weights) : weights_(weights.begin(), weights.end()) {
  nan_rows_.resize(weights_.size());
  for (std::size_t g = 0; g < weights_.size(); ++g) {
    const QuantizedTensor& w = weights_[g];
    for (std::int64_t r = 0; r < w.rows; ++r) {
      const std::uint8_t* scales = w.scales + r * w.scale_stride;
      const auto is_nan = [](std::uint8_t s) { return (s & kNanScale) == kNanScale; };
      if (std::any_of(scales, scales + w.k / kBlock, is_nan)) nan_rows_[g].push_back(r);
    }
  }
}

double CpuRow::alpha(std::size_t group) const { return weights_[group].global.decode(); }

Status CpuRow::launch(const MatmulArgs& args) {
  if (Status status = check_args(weights_, args); !status) return status;
  const int threads = args.threads == 0 ? hardware_threads() : args.threads;
  scratch_.resize(std::max(scratch_.size(), static_cast<std::size_t>(threads)));
  for (std::size_t g = 0; g < weights_.size(); ++g) {
    const std::int64_t begin = args.group_offsets.empty() ? 0 : args.group_offsets[g];
    const std::int64_t end = args.group_offsets.empty() ? args.x.rows : args.group_offsets[g + 1];
    for (std::int64_t row = begin; row < end; row += kMaxRows)
      run_rows(args, g, row, std::min(kMaxRows, end - row), threads);
  }
  return ok();
}

void CpuRow::run_rows(const MatmulArgs& args, std::size_t group, std::int64_t begin, std::int64_t rows, int threads) {
  const QuantizedTensor& w = weights_[group];
  const std::int64_t chunk = rows > kVectorRows ? this->chunk() : w.k;
  const std::int64_t chunks = (w.k + chunk - 1) / chunk;
  const std::size_t row_bytes = (packed_bytes(std::min(chunk, w.k), rows) + 63) / 64 * 64;
  const std::size_t chunk_bytes = row_bytes * static_cast<std::size_t>(rows);
  std::byte* packed = packed_.reserve(chunk_bytes * static_cast<std::size_t>(chunks));
  const std::size_t scratch = scratch_bytes();
  const std::size_t sums_bytes = sizeof(float) * kPanel * kMaxRows;
  const std::size_t line_bytes = (static_cast<std::size_t>(w.k) * sizeof(float) + 63) / 64 * 64;
  const auto reserve = [&](int worker) {
    return scratch_[static_cast<std::size_t>(worker)].reserve(sums_bytes + std::max(scratch, line_bytes));
  };

  parallel_for(rows, 1, threads, [&](std::int64_t first, std::int64_t last, int worker) {
    auto* line = reinterpret_cast<float*>(reserve(worker));
    for (std::int64_t i = first; i < last; ++i) {
      load_row(args.x, begin + i, line);
      for (std::int64_t c = 0; c < chunks; ++c)
        pack(group, line + c * chunk, std::min(chunk, w.k - c * chunk), rows,
             packed + static_cast<std::size_t>(c) * chunk_bytes + static_cast<std::size_t>(i) * row_bytes);
    }
  });

  const double factor = alpha(group);
  const std::vector<std::int64_t>& nan_rows = nan_rows_[group];
  parallel_for((w.rows + kPanel - 1) / kPanel, 1, threads, [&](std::int64_t first, std::int64_t last, int worker) {
    std::byte* memory = reserve(worker);
    Panel panel{&w,
                0,
                0,
                rows,
                packed,
                static_cast<std::int64_t>(row_bytes),
                chunk,
                static_cast<std::int64_t>(chunk_bytes),
                reinterpret_cast<float*>(memory),
                memory + sums_bytes};
    for (std::int64_t p = first; p < last; ++p) {
      panel.n = p * kPanel;
      panel.count = std::min(kPanel, w.rows - panel.n);
      multiply(panel);
      for (auto it = std::lower_bound(nan_rows.begin(), nan_rows.end(), panel.n);
           it != nan_rows.end() && *it < panel.n + panel.count; ++it)
        for (std::int64_t i = 0; i < rows; ++i)
          panel.sums[i * kPanel + (*it - panel.n)] = std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < panel.count; ++j) {
          const double bias = args.bias == nullptr ? 0.0 : double{args.bias[panel.n + j]};
          store(args.y, begin + i, panel.n + j, double{panel.sums[i * kPanel + j]} * factor + bias);
        }
    }
  });
}

}  // namespace tetrad::kernels
