#include "tetrad/weight.hpp"

#include <fmt/format.h>

#include <new>

#include "core/text.hpp"
#include "weight/layouts.hpp"

namespace tetrad {

namespace {

constexpr std::align_val_t kAlign{64};

Error unknown_layout(std::string_view id) {
  std::vector<std::string> known;
  for (const Layout& layout : layouts()) known.emplace_back(layout.id);
  return Error{.kind = ErrorKind::usage,
               .id = "TE0251",
               .what = fmt::format("unknown weight layout '{}'", id),
               .where = {},
               .need = fmt::format("one of {}", fmt::join(known, ", ")),
               .have = std::string(id),
               .causes = {},
               .hint = core::did_you_mean(id, known)};
}

Error misfit(std::string what, std::string need, std::string have) {
  return Error{.kind = ErrorKind::input,
               .id = "TE0252",
               .what = std::move(what),
               .where = {},
               .need = std::move(need),
               .have = std::move(have),
               .causes = {},
               .hint = {}};
}

}  // namespace

std::span<const Layout> layouts() {
  static const Layout all[] = {weight::kLinear1, weight::kMma16};
  return all;
}

const Layout* find_layout(std::string_view id) {
  for (const Layout& layout : layouts()) {
    if (layout.id == id) return &layout;
  }
  return nullptr;
}

Result<PackedWeight> pack(const QuantizedTensor& tensor, std::string_view layout_id) {
  const Layout* layout = find_layout(layout_id);
  if (layout == nullptr) return unknown_layout(layout_id);
  if (tensor.space != MemorySpace::host) {
    return misfit("packing reads host memory", "a tensor in host memory", "device memory");
  }
  if (tensor.rows <= 0 || tensor.k <= 0 || tensor.rows % layout->rows_multiple != 0 ||
      tensor.k % layout->k_multiple != 0 || tensor.k % kBlock != 0) {
    return misfit(
        fmt::format("layout {} does not take this shape", layout->id),
        fmt::format("rows a multiple of {}, k of {}, both positive", layout->rows_multiple, layout->k_multiple),
        fmt::format("[{}, {}]", tensor.rows, tensor.k));
  }
  if (tensor.codes == nullptr || tensor.scales == nullptr || tensor.code_stride < tensor.k / 2 ||
      (tensor.scale_layout == ScaleLayout::linear && tensor.scale_stride < tensor.k / kBlock)) {
    return misfit("rows of the tensor overlap or are missing",
                  fmt::format("code stride >= {} B, scale stride >= {} B", tensor.k / 2, tensor.k / kBlock),
                  fmt::format("{} B, {} B", tensor.code_stride, tensor.scale_stride));
  }
  PackedWeight packed;
  packed.layout = std::string(layout->id);
  packed.rows = tensor.rows;
  packed.k = tensor.k;
  packed.global = tensor.global;
  packed.input_global = tensor.input_global;
  packed.bytes = layout->bytes(tensor.rows, tensor.k);
  auto* memory = static_cast<std::uint8_t*>(::operator new(packed.bytes, kAlign));
  layout->pack(tensor, memory);
  packed.data = std::shared_ptr<const std::uint8_t>(
      memory, [](const std::uint8_t* p) { ::operator delete(const_cast<std::uint8_t*>(p), kAlign); });
  return packed;
}

Status unpack(const PackedWeight& packed, std::uint8_t* codes, std::uint8_t* scales) {
  const Layout* layout = find_layout(packed.layout);
  if (layout == nullptr) return unknown_layout(packed.layout);
  const std::size_t need = layout->bytes(packed.rows, packed.k);
  if (packed.data == nullptr || packed.bytes != need) {
    return misfit(fmt::format("the buffer does not fit [{}, {}] in layout {}", packed.rows, packed.k, layout->id),
                  fmt::format("{} B", need), fmt::format("{} B", packed.bytes));
  }
  layout->unpack(packed.data.get(), packed.rows, packed.k, codes, scales);
  return ok();
}

Result<QuantizedTensor> view(const PackedWeight& packed) {
  if (packed.layout != weight::kLinear1.id) {
    return Error{.kind = ErrorKind::usage,
                 .id = "TE0251",
                 .what = "only a linear weight can be seen as a tensor",
                 .where = {},
                 .need = std::string(weight::kLinear1.id),
                 .have = packed.layout,
                 .causes = {},
                 .hint = {}};
  }
  QuantizedTensor tensor;
  tensor.rows = packed.rows;
  tensor.k = packed.k;
  tensor.codes = packed.data.get();
  tensor.code_stride = packed.k / 2;
  tensor.scales = packed.data.get() + weight::linear1_scales_at(packed.rows, packed.k);
  tensor.scale_stride = packed.k / kBlock;
  tensor.global = packed.global;
  tensor.input_global = packed.input_global;
  return tensor;
}

}  // namespace tetrad
