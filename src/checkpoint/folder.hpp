// Which files a checkpoint consists of (internal): index, shards, configs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/safetensors.hpp"
#include "tetrad/error.hpp"

namespace tetrad::checkpoint {

inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
inline constexpr std::string_view kModelName = "model.safetensors";

struct ShardFile {
  std::string name;  // inside the checkpoint
  std::string path;  // real path
};

struct Folder {
  std::string path;
  bool is_folder = false;
  std::vector<ShardFile> shards;             // sorted by name
  std::map<std::string, std::string> index;  // tensor -> shard; empty without an index file
};

// A shard opened, its header read and checked.
struct OpenShard {
  InputFile input;
  Header header;
  std::uint64_t data_at = 0;
};

// Errors: TE0201, TE0206 to TE0209 and TE0220 (a bad index), TE0221, TE0222, TE0224 (no or several files, no index).
Result<Folder> find_files(const std::string& path);

// Errors: TE0201, TE0202 (shorter than 8 bytes), TE0203 to TE0219.
Result<OpenShard> open_shard(const ShardFile& shard);

// A JSON file of the folder; nullopt if it is not there. Errors: those of read_small_file and parse_json.
Result<std::optional<Json>> read_json(const Folder& folder, std::string_view name);

// quantization_config of config.json, else hf_quant_config.json, as text; empty if neither is there.
Result<std::string> quantization_config(const Folder& folder);

}  // namespace tetrad::checkpoint
