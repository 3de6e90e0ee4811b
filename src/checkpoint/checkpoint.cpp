#include "tetrad/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "checkpoint/convention.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/safetensors.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad {

namespace fs = std::filesystem;
using checkpoint::InputFile;
using checkpoint::Json;
using checkpoint::refuse;

struct Checkpoint::State {
  struct File {
    std::string name;
    InputFile input;
    std::uint64_t data_at = 0;  // first byte after the header
    const std::uint8_t* map = nullptr;
  };
  std::string path;
  std::vector<File> files;
  std::vector<StoredTensor> tensors;
  std::string config_text;
  Json config;

  const File& file_of(const StoredTensor& tensor) const {
    return *std::find_if(files.begin(), files.end(), [&](const File& f) { return f.name == tensor.file; });
  }
};

namespace {

std::string where_of(const StoredTensor& tensor) { return fmt::format("{}: tensor '{}'", tensor.file, tensor.name); }

// A global scale: F32, BF16 or F16 (older exporters), shape [] or [1], positive and finite.
Result<GlobalScale> read_global(const Checkpoint& checkpoint, const StoredTensor& tensor, GlobalScale::Kind kind) {
  const bool scalar = tensor.shape.empty() || (tensor.shape.size() == 1 && tensor.shape[0] == 1);
  const bool known = tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
  if (!scalar || !known) {
    return refuse("TE0232", "a global scale has a wrong type or shape", where_of(tensor), "F32, BF16 or F16, [] or [1]",
                  fmt::format("{} {}", tensor.dtype, checkpoint::shape_text(tensor)));
  }
  std::uint8_t bytes[4] = {};
  if (Status read = checkpoint.read(tensor, 0, {bytes, static_cast<std::size_t>(tensor.bytes)}); !read) {
    return read.error();
  }
  float value = 0.0F;
  if (tensor.dtype == "F32") {
    std::memcpy(&value, bytes, 4);
  } else {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes, 2);
    value = tensor.dtype == "BF16" ? bf16_to_f32(half) : f16_to_f32(half);
  }
  if (!(value > 0.0F) || !std::isfinite(value)) {
    return refuse("TE0234", "a global scale is not positive and finite", where_of(tensor), "above 0 and finite",
                  fmt::format("{}", value));
  }
  return GlobalScale{value, kind};
}

// Every block scale is a UE4M3 number: sign bit 0 and not NaN. Reads in pieces, eight bytes at a time.
Status check_scales(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  constexpr std::uint64_t kPiece = 1 << 20;
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(std::min(kPiece, (tensor.bytes + 7) / 8 * 8)));
  for (std::uint64_t at = 0; at < tensor.bytes; at += kPiece) {
    const auto count = static_cast<std::size_t>(std::min(kPiece, tensor.bytes - at));
    if (Status read = checkpoint.read(tensor, at, {piece.data(), count}); !read) return read;
    std::fill(piece.begin() + static_cast<std::ptrdiff_t>(count), piece.end(), std::uint8_t{0});
    for (std::size_t i = 0; i < count; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, &piece[i], 8);
      // Bit 7 of a byte of the sum is set where its low 7 bits are all ones.
      const std::uint64_t nan = (word & 0x7F7F7F7F7F7F7F7FULL) + 0x0101010101010101ULL;
      if (((word | nan) & 0x8080808080808080ULL) == 0) continue;
      std::size_t j = i;
      while ((piece[j] & 0x80U) == 0 && piece[j] != 0x7F) ++j;
      const auto index = static_cast<std::int64_t>(at + j);
      return refuse(
          "TE0233", "a block scale is negative or NaN",
          fmt::format("{}, row {}, block {}", where_of(tensor), index / tensor.shape[1], index % tensor.shape[1]),
          "0x00 to 0x7e", fmt::format("0x{:02x}", piece[j]));
    }
  }
  return ok();
}

Result<NvFp4Layer> assemble(const Checkpoint& checkpoint, const checkpoint::LayerParts& parts,
                            const checkpoint::ConventionRow& row) {
  const StoredTensor& codes = *parts.codes;
  const StoredTensor& scales = *parts.scales;
  if (codes.dtype != "U8" || codes.shape.size() != 2 || codes.shape[0] == 0 || codes.shape[1] == 0 ||
      codes.shape[1] % (kBlock / 2) != 0) {
    return refuse("TE0232", "the codes of an NVFP4 layer have a wrong type or shape", where_of(codes),
                  "U8 [n, k / 2], k a multiple of 16",
                  fmt::format("{} {}", codes.dtype, checkpoint::shape_text(codes)));
  }
  const std::int64_t n = codes.shape[0];
  const std::int64_t blocks = codes.shape[1] / (kBlock / 2);
  if (scales.shape.size() == 1) {
    return refuse("TE0235", "block scales in one dimension are swizzled, which this convention does not allow",
                  where_of(scales), fmt::format("F8_E4M3 [{}, {}]", n, blocks), checkpoint::shape_text(scales));
  }
  if (scales.dtype != "F8_E4M3" || scales.shape != std::vector<std::int64_t>{n, blocks}) {
    return refuse("TE0232", "the block scales do not fit their codes", where_of(scales),
                  fmt::format("F8_E4M3 [{}, {}] for codes {}", n, blocks, checkpoint::shape_text(codes)),
                  fmt::format("{} {}", scales.dtype, checkpoint::shape_text(scales)));
  }
  NvFp4Layer layer;
  layer.name = parts.name;
  layer.convention = row.convention;
  layer.weight.rows = n;
  layer.weight.k = blocks * kBlock;
  layer.weight.codes = codes.data;
  layer.weight.code_stride = codes.shape[1];
  layer.weight.scales = scales.data;
  layer.weight.scale_stride = blocks;
  Result<GlobalScale> global = read_global(checkpoint, *parts.global, row.kind);
  if (!global) return global.error();
  layer.weight.global = *global;
  if (parts.input_global != nullptr) {
    Result<GlobalScale> input = read_global(checkpoint, *parts.input_global, row.kind);
    if (!input) return input.error();
    layer.weight.input_global = *input;
    layer.scheme = Scheme::w4a4;
  }
  return layer;
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  Result<checkpoint::Folder> folder = checkpoint::find_files(path);
  if (!folder) return folder.error();
  auto state = std::make_unique<State>();
  state->path = path;
  for (const checkpoint::ShardFile& shard : folder->shards) {
    Result<checkpoint::OpenShard> open = checkpoint::open_shard(shard);
    if (!open) return open.error();
    Result<const std::uint8_t*> map = open->input.map();
    if (!map) return map.error();
    for (checkpoint::HeaderTensor& tensor : open->header.tensors) {
      state->tensors.push_back({.name = std::move(tensor.name),
                                .dtype = std::move(tensor.dtype),
                                .shape = std::move(tensor.shape),
                                .data = *map + open->data_at + tensor.begin,
                                .bytes = tensor.end - tensor.begin,
                                .file = shard.name});
    }
    state->files.push_back({shard.name, std::move(open->input), open->data_at, *map});
  }
  std::sort(state->tensors.begin(), state->tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(state->tensors.begin(), state->tensors.end(),
                                        [](const StoredTensor& a, const StoredTensor& b) { return a.name == b.name; });
  if (twice != state->tensors.end()) {
    return refuse("TE0223", "a tensor lies in two files", fmt::format("{}: tensor '{}'", path, twice->name), "one file",
                  fmt::format("{} and {}", twice->file, (twice + 1)->file));
  }
  Result<std::string> config = checkpoint::quantization_config(*folder);
  if (!config) return config.error();
  state->config_text = std::move(*config);
  state->config = Json::object();
  if (!state->config_text.empty()) state->config = Json::parse(state->config_text);
  Checkpoint opened(std::move(state));
  for (const auto& [tensor, file] : folder->index) {
    const StoredTensor* found = opened.find(tensor);
    if (found == nullptr || found->file != file) {
      return refuse("TE0223", "the index and a shard disagree", fmt::format("{}: tensor '{}'", path, tensor),
                    "in " + file, found == nullptr ? "in no shard" : "in " + found->file);
    }
  }
  return opened;
}

const std::string& Checkpoint::path() const { return state_->path; }
const std::vector<StoredTensor>& Checkpoint::tensors() const { return state_->tensors; }
const std::string& Checkpoint::quantization_config() const { return state_->config_text; }

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(state_->tensors.begin(), state_->tensors.end(), name,
                                   [](const StoredTensor& tensor, std::string_view key) { return tensor.name < key; });
  return at != state_->tensors.end() && at->name == name ? &*at : nullptr;
}

Status Checkpoint::read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::uint8_t> into) const {
  if (offset > tensor.bytes || into.size() > tensor.bytes - offset) {
    return refuse("TE0236", "the range leaves the tensor", where_of(tensor), fmt::format("within {} B", tensor.bytes),
                  fmt::format("[{}, {})", offset, offset + into.size()));
  }
  if (into.empty()) return ok();
  const State::File& file = state_->file_of(tensor);
  return file.input.read(static_cast<std::uint64_t>(tensor.data - file.map) + offset, into);
}

Status Checkpoint::intact() const {
  for (const State::File& file : state_->files) {
    if (Status status = file.input.intact(); !status) return status;
  }
  return ok();
}

Result<std::vector<NvFp4Layer>> Checkpoint::nvfp4_layers(LayerCheck check) const {
  if (Status status = intact(); !status) return status.error();
  std::vector<NvFp4Layer> layers;
  std::vector<const StoredTensor*> scales;
  for (const StoredTensor& tensor : state_->tensors) {
    for (const checkpoint::ConventionRow* row : {&checkpoint::kCompressedTensors, &checkpoint::kModelOpt}) {
      Result<std::optional<checkpoint::LayerParts>> parts = row->layer_of(*this, tensor, state_->config);
      if (!parts) return parts.error();
      if (!parts->has_value()) continue;
      Result<NvFp4Layer> layer = assemble(*this, **parts, *row);
      if (!layer) return layer.error();
      layers.push_back(std::move(*layer));
      scales.push_back((*parts)->scales);
    }
  }
  if (check == LayerCheck::values) {
    std::vector<std::optional<Error>> errors(scales.size());
    parallel_for(static_cast<std::int64_t>(scales.size()), 1, 0, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        if (Status status = check_scales(*this, *scales[i]); !status) errors[i] = status.error();
      }
    });
    for (const std::optional<Error>& error : errors) {
      if (error) return *error;
    }
  }
  return layers;
}

Result<ConstMatrix> dense_matrix(const StoredTensor& tensor) {
  ConstMatrix matrix;
  if (tensor.dtype == "F32") {
    matrix.type = DType::f32;
  } else if (tensor.dtype == "BF16") {
    matrix.type = DType::bf16;
  } else if (tensor.dtype == "F16") {
    matrix.type = DType::f16;
  }
  const bool known = tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
  if (!known || tensor.shape.size() != 2) {
    return refuse("TE0237", "the tensor is no dense matrix", where_of(tensor), "BF16, F16 or F32 in 2 dimensions",
                  fmt::format("{} {}", tensor.dtype, checkpoint::shape_text(tensor)));
  }
  const auto align = static_cast<std::uintptr_t>(bits(matrix.type) / 8);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % align != 0) {
    return refuse("TE0238", "the tensor is not aligned in its file", where_of(tensor),
                  fmt::format("a multiple of {} B", align),
                  fmt::format("{} B past one", reinterpret_cast<std::uintptr_t>(tensor.data) % align));
  }
  matrix.data = tensor.data;
  matrix.rows = tensor.shape[0];
  matrix.cols = tensor.shape[1];
  matrix.stride = tensor.shape[1];
  return matrix;
}

}  // namespace tetrad
