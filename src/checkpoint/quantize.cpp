// quantize_checkpoint: plans every output file from the headers, then streams group by group of fused layers.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "checkpoint/convention.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/linear.hpp"
#include "checkpoint/output.hpp"
#include "tetrad/checkpoint.hpp"

namespace tetrad {

namespace fs = std::filesystem;

namespace checkpoint {
namespace {

constexpr std::uint64_t kPiece = 32 << 20;  // bytes read, quantised and written at once

struct SourceShard {
  ShardFile file;
  OpenShard open;
  std::string out_name;
  Header out_header;
  std::uint64_t out_data_at = 0;
  std::optional<OutputFile> out;
};

// One tensor of the source and where its parts go: itself, or codes, scales, global scale and input scale.
struct Job {
  std::size_t shard = 0;
  const HeaderTensor* tensor = nullptr;
  std::string module;               // empty: copied as it is
  std::vector<HeaderTensor> parts;  // offsets count from the first byte after the output's header
  float input_amax = 0.0F;
};

struct Conversion {
  const QuantizeOptions& options;
  Folder folder;
  Json config = Json::object();
  std::vector<SourceShard> shards;
  std::vector<Job> jobs;                         // file order
  std::vector<std::vector<std::size_t>> groups;  // jobs that share a global scale, by their first job
  std::vector<std::string> ignored_modules;
  QuantizeReport report;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::vector<std::uint8_t> source;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;

  explicit Conversion(const QuantizeOptions& given) : options(given) {}
};

std::string where_of(const Conversion& c, const Job& job) {
  return fmt::format("{}: tensor '{}'", c.shards[job.shard].file.path, job.tensor->name);
}

Status read_source(Conversion& c, const std::string& in) {
  Result<Folder> folder = find_files(in);
  if (!folder) return folder.error();
  c.folder = std::move(*folder);
  Result<std::string> quantised = quantization_config(c.folder);
  if (!quantised) return quantised.error();
  if (!quantised->empty()) {
    return refuse("TE0246", "the checkpoint is quantised already", in, "a dense checkpoint (BF16, F16, F32)",
                  "a quantization_config");
  }
  Result<std::optional<Json>> config = read_json(c.folder, "config.json");
  if (!config) return config.error();
  if (config->has_value()) c.config = std::move(**config);
  std::map<std::string_view, std::string_view> seen;
  for (const ShardFile& file : c.folder.shards) {
    Result<OpenShard> open = open_shard(file);
    if (!open) return open.error();
    ::posix_fadvise(open->input.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
    c.report.bytes_in += open->input.size();
    c.shards.push_back({file, std::move(*open), c.folder.is_folder ? file.name : std::string(kModelName), {}, 0, {}});
  }
  for (const SourceShard& shard : c.shards) {
    for (const HeaderTensor& tensor : shard.open.header.tensors) {
      const auto [at, fresh] = seen.emplace(tensor.name, shard.file.name);
      if (!fresh) {
        return refuse("TE0223", "a tensor lies in two files", fmt::format("{}: tensor '{}'", in, tensor.name),
                      "one file", fmt::format("{} and {}", at->second, shard.file.name));
      }
    }
  }
  for (const auto& [tensor, file] : c.folder.index) {
    const auto at = seen.find(tensor);
    if (at == seen.end() || at->second != file) {
      return refuse("TE0223", "the index and a shard disagree", fmt::format("{}: tensor '{}'", in, tensor),
                    "in " + file, at == seen.end() ? "in no shard" : fmt::format("in {}", at->second));
    }
  }
  return ok();
}

std::vector<HeaderTensor> parts_of(const HeaderTensor& tensor, const std::string& module,
                                   const QuantizeOptions& options) {
  const PartNames names = row(options.convention).names(module);
  const std::int64_t n = tensor.shape[0];
  const std::int64_t k = tensor.shape[1];
  const std::vector<std::int64_t> global =
      names.global_is_vector ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{};
  std::vector<HeaderTensor> parts = {{names.codes, "U8", {n, k / 2}, 0, 0},
                                     {names.scales, "F8_E4M3", {n, k / kBlock}, 0, 0},
                                     {names.global, "F32", global, 0, 0}};
  if (options.scheme == Scheme::w4a4) parts.push_back({names.input_global, "F32", global, 0, 0});
  return parts;
}

std::uint64_t bytes_of(const HeaderTensor& tensor) {
  std::uint64_t bits = static_cast<std::uint64_t>(dtype_bits(tensor.dtype));
  for (const std::int64_t size : tensor.shape) bits *= static_cast<std::uint64_t>(size);
  return bits / 8;
}

// Finds what to quantise and what to copy, and forms the groups.
Status choose(Conversion& c) {
  const ModelFacts facts = model_facts(c.config);
  Result<IgnoreList> ignore = IgnoreList::make(c.options.ignore);
  if (!ignore) return ignore.error();
  std::map<std::string, std::size_t> group_of;
  std::vector<std::string> fused;
  for (std::size_t s = 0; s < c.shards.size(); ++s) {
    for (const HeaderTensor& tensor : c.shards[s].open.header.tensors) {
      Job job;
      job.shard = s;
      job.tensor = &tensor;
      c.total_bytes += tensor.end - tensor.begin;
      const std::string module = without_suffix(tensor.name, ".weight").value_or(tensor.name);
      std::optional<std::string> reason = not_linear(tensor, facts);
      if (tensor.shape.size() >= 2) {
        const std::string* pattern = ignore->match(module);
        if (pattern == nullptr && is_fused_experts(tensor)) fused.push_back(tensor.name);
        if (pattern != nullptr && (!reason || is_fused_experts(tensor))) {
          reason = fmt::format("ignored by '{}'", *pattern);
        }
      }
      if (reason) {
        if (!reason->empty()) {
          c.report.ignored.push_back(fmt::format("{}: {}", module, *reason));
          if (tensor.shape.size() == 2 && tensor.name.ends_with(".weight")) c.ignored_modules.push_back(module);
        }
        job.parts = {tensor};
        c.jobs.push_back(std::move(job));
        continue;
      }
      job.module = module;
      job.parts = parts_of(tensor, module, c.options);
      const auto [at, fresh] = group_of.emplace(fused_key(module), c.groups.size());
      if (fresh) c.groups.emplace_back();
      c.groups[at->second].push_back(c.jobs.size());
      c.jobs.push_back(std::move(job));
    }
  }
  if (!fused.empty()) {
    Error error = refuse("TE0253", "experts in one tensor of 3 dimensions cannot be quantised", c.folder.path,
                         "one matrix per expert: the order of a fused tensor differs between model families",
                         fmt::format("{} such tensors, '{}' the first", fused.size(), fused.front()));
    error.hint =
        "split them into experts.N.gate_proj.weight and so on, or leave them as they are: --ignore '*experts*'";
    return error;
  }
  std::sort(c.report.ignored.begin(), c.report.ignored.end());
  std::sort(c.ignored_modules.begin(), c.ignored_modules.end());
  c.report.unmatched_ignore = ignore->unmatched();
  if (c.groups.empty()) {
    Error error = refuse("TE0245", "the checkpoint has no weight to quantise", c.folder.path,
                         "a linear layer that is not ignored",
                         fmt::format("{} weights, all left as they are", c.report.ignored.size()));
    constexpr std::size_t kShown = 4;
    error.causes.assign(c.report.ignored.begin(), c.report.ignored.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                                 kShown, c.report.ignored.size())));
    return error;
  }
  return ok();
}

// The amax of each layer's input, the largest one over fused layers: they read the same input.
Status take_input_amax(Conversion& c) {
  if (c.options.scheme != Scheme::w4a4) return ok();
  std::vector<std::string> missing;
  for (const std::vector<std::size_t>& group : c.groups) {
    float amax = 0.0F;
    for (const std::size_t j : group) {
      const auto found = c.options.input_amax.find(c.jobs[j].module);
      if (found == c.options.input_amax.end()) {
        missing.push_back(c.jobs[j].module);
        continue;
      }
      const float scale = found->second / (kE2m1Max * kUe4m3Max);
      if (!std::isfinite(found->second) || !(scale >= std::numeric_limits<float>::min())) {
        return refuse("TE0244", "an input amax is not usable", fmt::format("layer '{}'", c.jobs[j].module),
                      "positive, finite, above 2688 * 2^-126", fmt::format("{}", found->second));
      }
      amax = std::max(amax, found->second);
    }
    for (const std::size_t j : group) c.jobs[j].input_amax = amax;
  }
  if (missing.empty()) return ok();
  const std::size_t shown = std::min<std::size_t>(missing.size(), 8);
  Error error =
      refuse("TE0243", "w4a4 needs the amax of every layer's input", c.folder.path, "a value for every quantised layer",
             fmt::format("none for {}: {}{}", missing.size(),
                         fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                         shown < missing.size() ? ", ..." : ""));
  error.hint = "record them with tetrad run --record-amax FILE, or ignore these layers";
  return error;
}

// Gives every part its place. Wide types come first, so that all tensors are aligned; within one type the source's
// order stays, so that writing runs forward.
void lay_out(Conversion& c) {
  for (std::size_t s = 0; s < c.shards.size(); ++s) {
    std::vector<HeaderTensor*> parts;
    for (Job& job : c.jobs) {
      if (job.shard != s) continue;
      for (HeaderTensor& part : job.parts) parts.push_back(&part);
    }
    std::stable_sort(parts.begin(), parts.end(), [](const HeaderTensor* a, const HeaderTensor* b) {
      return dtype_bits(a->dtype) > dtype_bits(b->dtype);
    });
    SourceShard& shard = c.shards[s];
    shard.out_header.metadata = shard.open.header.metadata;
    std::uint64_t at = 0;
    for (HeaderTensor* part : parts) {
      const std::uint64_t bytes = bytes_of(*part);
      part->begin = at;
      part->end = at += bytes;
      shard.out_header.tensors.push_back(*part);
    }
  }
}

Status open_outputs(Conversion& c, const std::string& folder) {
  for (SourceShard& shard : c.shards) {
    const std::string header = header_bytes(shard.out_header);
    shard.out_data_at = header.size();
    const std::uint64_t size =
        header.size() + (shard.out_header.tensors.empty() ? 0 : shard.out_header.tensors.back().end);
    Result<OutputFile> out = OutputFile::create((fs::path(folder) / shard.out_name).string(), size);
    if (!out) return out.error();
    if (Status s = out->write(0, {reinterpret_cast<const std::uint8_t*>(header.data()), header.size()}); !s) return s;
    shard.out = std::move(*out);
    c.report.bytes_out += size;
  }
  return ok();
}

Status keep_going(const Conversion& c) {
  if (!c.options.cancelled || !c.options.cancelled()) return ok();
  return refuse("TE0247", "stopped before the end", c.folder.path);
}

Status write_part(Conversion& c, const Job& job, std::size_t part, std::uint64_t offset,
                  std::span<const std::uint8_t> bytes) {
  SourceShard& shard = c.shards[job.shard];
  return shard.out->write(shard.out_data_at + job.parts[part].begin + offset, bytes);
}

void advance(Conversion& c, std::uint64_t bytes, std::string_view name) {
  c.done_bytes += bytes;
  if (c.options.progress) c.options.progress(c.done_bytes, c.total_bytes, name);
}

Status copy(Conversion& c, const Job& job) {
  const SourceShard& shard = c.shards[job.shard];
  const std::uint64_t bytes = job.tensor->end - job.tensor->begin;
  for (std::uint64_t at = 0; at < bytes; at += kPiece) {
    if (Status s = keep_going(c); !s) return s;
    c.source.resize(static_cast<std::size_t>(std::min(kPiece, bytes - at)));
    if (Status s = shard.open.input.read(shard.open.data_at + job.tensor->begin + at, c.source); !s) return s;
    if (Status s = write_part(c, job, 0, at, c.source); !s) return s;
    advance(c, c.source.size(), job.tensor->name);
  }
  return ok();
}

// Reads rows [begin, begin + matrix.rows) of a weight into the buffer, as many as fit in one piece.
Result<ConstMatrix> read_rows(Conversion& c, const Job& job, std::int64_t begin) {
  if (Status s = keep_going(c); !s) return s.error();
  const SourceShard& shard = c.shards[job.shard];
  ConstMatrix piece;
  piece.type = job.tensor->dtype == "F32" ? DType::f32 : job.tensor->dtype == "BF16" ? DType::bf16 : DType::f16;
  piece.cols = piece.stride = job.tensor->shape[1];
  const auto row_bytes = static_cast<std::uint64_t>(piece.cols) * static_cast<std::uint64_t>(bits(piece.type) / 8);
  const auto fit = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kPiece / row_bytes));
  piece.rows = std::min(fit, job.tensor->shape[0] - begin);
  c.source.resize(static_cast<std::size_t>(row_bytes * static_cast<std::uint64_t>(piece.rows)));
  const std::uint64_t at = shard.open.data_at + job.tensor->begin + row_bytes * static_cast<std::uint64_t>(begin);
  if (Status s = shard.open.input.read(at, c.source); !s) return s.error();
  piece.data = c.source.data();
  return piece;
}

// A refusal of the number format, with tensor, row and column instead of a place in the piece.
Error locate(const Conversion& c, const Job& job, const ConstMatrix& piece, std::int64_t first_row, Error error) {
  error.where = where_of(c, job);
  for (std::int64_t r = 0; r < piece.rows; ++r) {
    for (std::int64_t k = 0; k < piece.cols; ++k) {
      if (std::isfinite(element(piece, r, k))) continue;
      error.where += fmt::format(", row {}, column {}", first_row + r, k);
      return error;
    }
  }
  return error;
}

Status quantize_layer(Conversion& c, const Job& job, float global) {
  const std::int64_t n = job.tensor->shape[0];
  const std::int64_t k = job.tensor->shape[1];
  QuantStats stats;
  for (std::int64_t r = 0; r < n;) {
    Result<ConstMatrix> piece = read_rows(c, job, r);
    if (!piece) return piece.error();
    const auto rows = static_cast<std::size_t>(piece->rows);
    c.codes.resize(rows * static_cast<std::size_t>(k / 2));
    c.scales.resize(rows * static_cast<std::size_t>(k / kBlock));
    QuantStats part;
    if (Status s =
            quantize(*piece, global, c.options.method, c.codes.data(), c.scales.data(), &part, c.options.threads);
        !s) {
      return locate(c, job, *piece, r, s.error());
    }
    stats.sum_squared += part.sum_squared;
    stats.sum_squared_error += part.sum_squared_error;
    stats.blocks += part.blocks;
    stats.blocks_over_four += part.blocks_over_four;
    const auto first = static_cast<std::uint64_t>(r);
    if (Status s = write_part(c, job, 0, first * static_cast<std::uint64_t>(k / 2), c.codes); !s) return s;
    if (Status s = write_part(c, job, 1, first * static_cast<std::uint64_t>(k / kBlock), c.scales); !s) return s;
    r += piece->rows;
    advance(c, c.source.size(), job.module);
  }
  c.report.layers.push_back(
      {.name = job.module,
       .rows = n,
       .k = k,
       .relative_mse = stats.sum_squared > 0.0 ? stats.sum_squared_error / stats.sum_squared : 0.0,
       .over_four_share =
           stats.blocks > 0 ? static_cast<double>(stats.blocks_over_four) / static_cast<double>(stats.blocks) : 0.0});
  return ok();
}

Status write_scalar(Conversion& c, const Job& job, std::size_t part, float value) {
  std::uint8_t bytes[4];
  std::memcpy(bytes, &value, 4);
  return write_part(c, job, part, 0, bytes);
}

// The disk may fetch this group while the one before is at work.
void read_ahead(const Conversion& c, const std::vector<std::size_t>& group) {
  for (const std::size_t j : group) {
    const Job& job = c.jobs[j];
    const OpenShard& open = c.shards[job.shard].open;
    ::posix_fadvise(open.input.fd(), static_cast<off_t>(open.data_at + job.tensor->begin),
                    static_cast<off_t>(job.tensor->end - job.tensor->begin), POSIX_FADV_WILLNEED);
  }
}

// Two passes over the group: the largest magnitude, then the numbers. The second one finds the file in memory.
Status quantize_group(Conversion& c, const std::vector<std::size_t>& group) {
  float amax = 0.0F;
  for (const std::size_t j : group) {
    const Job& job = c.jobs[j];
    for (std::int64_t r = 0; r < job.tensor->shape[0];) {
      Result<ConstMatrix> piece = read_rows(c, job, r);
      if (!piece) return piece.error();
      Result<float> found = absmax(*piece, c.options.threads);
      if (!found) return locate(c, job, *piece, r, found.error());
      amax = std::max(amax, *found);
      r += piece->rows;
    }
  }
  // A normal number whose reciprocal is finite, whatever the weights are.
  float global = std::max(global_scale_for(amax, c.options.method), std::numeric_limits<float>::min());
  float stored = global;
  const bool divisor = row(c.options.convention).kind == GlobalScale::Kind::divisor;
  if (divisor) {
    // The quantiser works with what a reader will decode, not with the value before rounding.
    stored = 1.0F / global;
    global = 1.0F / stored;
  }
  for (const std::size_t j : group) {
    const Job& job = c.jobs[j];
    if (Status s = quantize_layer(c, job, global); !s) return s;
    if (Status s = write_scalar(c, job, 2, stored); !s) return s;
    if (c.options.scheme != Scheme::w4a4) continue;
    const float input = job.input_amax / (kE2m1Max * kUe4m3Max);
    if (Status s = write_scalar(c, job, 3, divisor ? 1.0F / input : input); !s) return s;
  }
  return ok();
}

Status write_tensors(Conversion& c) {
  std::map<std::size_t, std::size_t> group_at;  // first job -> group
  for (std::size_t g = 0; g < c.groups.size(); ++g) group_at[c.groups[g].front()] = g;
  for (std::size_t j = 0; j < c.jobs.size(); ++j) {
    const auto at = group_at.find(j);
    Status status = ok();
    if (at != group_at.end()) {
      if (at->second + 1 < c.groups.size()) read_ahead(c, c.groups[at->second + 1]);
      status = quantize_group(c, c.groups[at->second]);
    } else if (c.jobs[j].module.empty()) {
      status = copy(c, c.jobs[j]);
    }
    if (!status) return status;
  }
  std::sort(c.report.layers.begin(), c.report.layers.end(),
            [](const QuantizeReport::Layer& a, const QuantizeReport::Layer& b) { return a.name < b.name; });
  for (SourceShard& shard : c.shards) {
    if (Status s = shard.open.input.intact(); !s) return s;
    if (Status s = shard.out->finish(); !s) return s;
  }
  return ok();
}

// Names that engines must not look for in NVFP4: what was left alone, and an output head tied to the embedding, which
// has no tensor of its own.
std::vector<std::string> names_to_ignore(const Conversion& c) {
  std::vector<std::string> names = c.ignored_modules;
  const bool language_model =
      std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.ends_with("embed_tokens"); });
  if (language_model && std::find(names.begin(), names.end(), "lm_head") == names.end()) names.emplace_back("lm_head");
  return names;
}

Status write_configs(Conversion& c, const std::string& out) {
  const std::vector<std::string> ignored = names_to_ignore(c);
  c.config["quantization_config"] = row(c.options.convention).config(c.options.scheme, ignored);
  const auto write = [&](std::string_view name, const Json& json) {
    const std::string text = json.dump(2) + "\n";
    c.report.bytes_out += text.size();
    return write_whole_file((fs::path(out) / name).string(), text);
  };
  if (Status s = write("config.json", c.config); !s) return s;
  if (c.options.convention == Convention::modelopt) {
    if (Status s = write("hf_quant_config.json", hf_quant_config(c.options.scheme, ignored)); !s) return s;
  }
  if (c.folder.index.empty()) return ok();
  Json index;
  std::uint64_t total = 0;
  std::map<std::string, std::string> files;
  for (const SourceShard& shard : c.shards) {
    if (!shard.out_header.tensors.empty()) total += shard.out_header.tensors.back().end;
    for (const HeaderTensor& tensor : shard.out_header.tensors) files[tensor.name] = shard.out_name;
  }
  index["metadata"]["total_size"] = total;
  index["weight_map"] = files;
  return write(kIndexName, index);
}

// Weights in other formats, what is written anew, and hidden entries stay behind.
bool is_copied(const fs::path& path) {
  static constexpr std::string_view kWeights[] = {".safetensors", ".bin",     ".pt", ".pth",  ".gguf", ".onnx",
                                                  ".h5",          ".msgpack", ".ot", ".ckpt", ".npz"};
  const std::string name = path.filename().string();
  if (name.starts_with(".")) return false;
  if (name == "config.json" || name == "hf_quant_config.json" || name.ends_with(".index.json")) return false;
  const std::string extension = path.extension().string();
  return std::find(std::begin(kWeights), std::end(kWeights), extension) == std::end(kWeights);
}

Status copy_file(Conversion& c, const std::string& from, const std::string& to) {
  Result<InputFile> in = InputFile::open(from);
  if (!in) return in.error();
  Result<OutputFile> out = OutputFile::create(to, in->size());
  if (!out) return out.error();
  for (std::uint64_t at = 0; at < in->size(); at += kPiece) {
    if (Status s = keep_going(c); !s) return s;
    c.source.resize(static_cast<std::size_t>(std::min(kPiece, in->size() - at)));
    if (Status s = in->read(at, c.source); !s) return s;
    if (Status s = out->write(at, c.source); !s) return s;
  }
  c.report.bytes_out += in->size();
  return out->finish();
}

Status copy_others(Conversion& c, const std::string& out) {
  if (!c.folder.is_folder) return ok();
  const fs::path root = c.folder.path;
  std::error_code code;
  for (fs::recursive_directory_iterator it(root, code), end; !code && it != end; it.increment(code)) {
    const fs::path path = it->path();
    const fs::path to = fs::path(out) / fs::relative(path, root, code);
    if (it->is_directory(code) && !it->is_symlink(code)) {
      if (path.filename().string().starts_with(".") || it.depth() > 4) it.disable_recursion_pending();
      continue;
    }
    // In subfolders config.json and the like belong to something else and are copied.
    const bool sub = it.depth() > 0 && path.extension() == ".json" && !path.filename().string().starts_with(".");
    if (!sub && !is_copied(path)) continue;
    Result<std::string> real = real_inside(root.string(), path.string());
    if (!real) return real.error();
    if (!fs::is_regular_file(*real, code)) continue;
    fs::create_directories(to.parent_path(), code);
    if (code) return refuse("TE0242", "cannot create a folder", to.parent_path().string(), {}, code.message());
    if (Status s = copy_file(c, *real, to.string()); !s) return s;
  }
  if (code) return system_error("cannot list the folder", root.string(), code.value());
  return ok();
}

}  // namespace
}  // namespace checkpoint

Result<QuantizeReport> quantize_checkpoint(const std::string& in, const std::string& out,
                                           const QuantizeOptions& options) {
  namespace cp = checkpoint;
  const auto start = std::chrono::steady_clock::now();
  std::error_code code;
  if (fs::symlink_status(out, code).type() != fs::file_type::not_found) {
    Error error = cp::refuse("TE0241", "the output exists already", out, "a path where nothing is", "a file or folder");
    error.hint = "remove it or name another path";
    return error;
  }
  cp::Conversion c(options);
  if (Status s = cp::read_source(c, in); !s) return s.error();
  if (Status s = cp::choose(c); !s) return s.error();
  if (Status s = cp::take_input_amax(c); !s) return s.error();
  cp::lay_out(c);
  Result<cp::OutputFolder> folder = cp::OutputFolder::create(out);
  if (!folder) return folder.error();
  if (Status s = cp::open_outputs(c, folder->path()); !s) return s.error();
  if (Status s = cp::write_tensors(c); !s) return s.error();
  if (Status s = cp::write_configs(c, folder->path()); !s) return s.error();
  if (Status s = cp::copy_others(c, folder->path()); !s) return s.error();
  if (Status s = folder->commit(); !s) return s.error();
  c.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(c.report);
}

}  // namespace tetrad
