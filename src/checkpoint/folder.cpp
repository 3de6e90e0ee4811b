#include "checkpoint/folder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>

namespace tetrad::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kIndexCap = 100'000'000;
constexpr std::uint64_t kConfigCap = 16'000'000;

bool exists(const Folder& folder, std::string_view name) {
  std::error_code code;
  return fs::symlink_status(fs::path(folder.path) / name, code).type() != fs::file_type::not_found && !code;
}

Status read_index(Folder& folder) {
  Result<std::string> path = resolve_inside(folder.path, std::string(kIndexName));
  if (!path) return path.error();
  Result<std::string> text = read_small_file(*path, kIndexCap);
  if (!text) return text.error();
  Result<Json> json = parse_json(*text, *path);
  if (!json) return json.error();
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty()) {
    return refuse("TE0220", "the index has no weight_map", *path, "an object weight_map: tensor -> file",
                  map == json->end() ? "none" : map->type_name());
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return refuse("TE0220", "an entry of the index is no file name",
                    fmt::format("{}: weight_map '{}'", *path, tensor), "a string", file.type_name());
    }
    folder.index.emplace(tensor, file.get<std::string>());
    names.insert(file.get<std::string>());
  }
  for (const std::string& name : names) {
    Result<std::string> real = resolve_inside(folder.path, name);
    if (!real) return real.error();
    folder.shards.push_back({name, std::move(*real)});
  }
  return ok();
}

}  // namespace

Result<Folder> find_files(const std::string& path) {
  Folder folder;
  folder.path = path;
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found || code) {
    return refuse("TE0201", "cannot open the checkpoint", path, "a folder or a .safetensors file",
                  code ? code.message() : "nothing there");
  }
  if (!fs::is_directory(status)) {
    folder.shards.push_back({fs::path(path).filename().string(), path});
    return folder;
  }
  folder.is_folder = true;
  if (exists(folder, kIndexName)) {
    if (Status read = read_index(folder); !read) return read.error();
    return folder;
  }
  std::vector<std::string> found;
  if (exists(folder, kModelName)) {
    found.emplace_back(kModelName);
  } else {
    for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
      if (it->path().extension() == ".safetensors") found.push_back(it->path().filename().string());
    }
    if (code) return system_error("cannot list the folder", path, code.value());
  }
  if (found.size() != 1) {
    return refuse("TE0224", "the folder is no checkpoint", path,
                  fmt::format("{}, {} or one .safetensors file", kIndexName, kModelName),
                  fmt::format("{} .safetensors files", found.size()));
  }
  Result<std::string> real = resolve_inside(path, found.front());
  if (!real) return real.error();
  folder.shards.push_back({found.front(), std::move(*real)});
  return folder;
}

Result<OpenShard> open_shard(const ShardFile& shard) {
  Result<InputFile> input = InputFile::open(shard.path);
  if (!input) return input.error();
  const std::uint64_t size = input->size();
  if (size < 8) {
    return refuse("TE0202", size == 0 ? "the file is empty" : "the file is too short for a header",
                  fmt::format("{}: byte {}", shard.path, size), "at least 10 B", fmt::format("{} B", size));
  }
  std::uint8_t word[8];
  if (Status read = input->read(0, word); !read) return read.error();
  Result<std::uint64_t> length = parse_header_length(word, size, shard.path);
  if (!length) return length.error();
  std::string text(static_cast<std::size_t>(*length), '\0');
  if (Status read = input->read(8, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}); !read) {
    return read.error();
  }
  Result<Header> header = parse_header(text, size - 8 - *length, shard.path);
  if (!header) return header.error();
  return OpenShard{std::move(*input), std::move(*header), 8 + *length};
}

Result<std::optional<Json>> read_json(const Folder& folder, std::string_view name) {
  if (!folder.is_folder || !exists(folder, name)) return std::optional<Json>();
  Result<std::string> path = resolve_inside(folder.path, std::string(name));
  if (!path) return path.error();
  Result<std::string> text = read_small_file(*path, kConfigCap);
  if (!text) return text.error();
  Result<Json> json = parse_json(*text, *path);
  if (!json) return json.error();
  return std::optional<Json>(std::move(*json));
}

Result<std::string> quantization_config(const Folder& folder) {
  Result<std::optional<Json>> config = read_json(folder, "config.json");
  if (!config) return config.error();
  if (config->has_value()) {
    const auto found = (**config).find("quantization_config");
    if (found != (**config).end() && found->is_object()) return found->dump(2);
  }
  Result<std::optional<Json>> own = read_json(folder, "hf_quant_config.json");
  if (!own) return own.error();
  return own->has_value() ? (**own).dump(2) : std::string();
}

}  // namespace tetrad::checkpoint
