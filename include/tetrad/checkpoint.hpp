// Checkpoints: safetensors files, their NVFP4 layers, and writing quantised ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"
#include "tetrad/nvfp4.hpp"
#include "tetrad/tensor.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

// One tensor of a file, as stored. Views point into the mapped file and live as long as its Checkpoint.
struct StoredTensor {
  std::string name;
  std::string dtype;  // safetensors word: "BF16", "F8_E4M3", "U8", ...
  std::vector<std::int64_t> shape;
  const std::uint8_t* data = nullptr;
  std::uint64_t bytes = 0;
  std::string file;  // file name inside the checkpoint
};

enum class Convention : std::uint8_t { compressed_tensors, modelopt };
std::string_view name(Convention convention);
std::optional<Convention> parse_convention(std::string_view text);

enum class Scheme : std::uint8_t { w4a16, w4a4 };
std::string_view name(Scheme scheme);
std::optional<Scheme> parse_scheme(std::string_view text);

// One quantised linear layer.
struct NvFp4Layer {
  std::string name;  // module name, without ".weight..."
  Convention convention = Convention::compressed_tensors;
  Scheme scheme = Scheme::w4a16;
  QuantizedTensor weight;  // input_global set for w4a4
};

// How far nvfp4_layers() looks: at names, types, shapes and global scales, or at every block scale too.
enum class LayerCheck : std::uint8_t { structure, values };

// A checkpoint folder or one .safetensors file, memory-mapped and checked.
class Checkpoint {
 public:
  // A folder holds model.safetensors.index.json and its shards, or one .safetensors file. Shards are plain names inside
  // the folder; links may not leave it, except into the blobs folder of a hub cache. Nothing is read beyond headers.
  // Errors (input): TE0201 to TE0227, docs/errors.md.
  static Result<Checkpoint> open(const std::string& path);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& path() const;
  const std::vector<StoredTensor>& tensors() const;  // sorted by name
  const StoredTensor* find(std::string_view name) const;
  // quantization_config / hf_quant_config.json, as JSON text; empty if none.
  const std::string& quantization_config() const;
  // Every NVFP4 layer, in either convention, sorted by name. Errors (input): a layer whose parts are missing or do not
  // fit, a global scale that is not positive and finite and, with LayerCheck::values, a block scale with its sign bit
  // set or NaN, by name and position.
  Result<std::vector<NvFp4Layer>> nvfp4_layers(LayerCheck check = LayerCheck::values) const;

  // Copies bytes [offset, offset + into.size()) of one of its tensors by file reads, not through the mapping. Errors
  // (input): the range leaves the tensor; TE0225 where the file is shorter by now.
  Status read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::uint8_t> into) const;
  // Every file still has the size that it was opened with. Touching a view of a file that shrank ends the program with
  // SIGBUS, so long-lived users ask before they read. Error (input): TE0225.
  Status intact() const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Dense weight of a source checkpoint as a matrix view. Error (input): not 2-D, not BF16/F16/F32, not aligned.
Result<ConstMatrix> dense_matrix(const StoredTensor& tensor);

struct QuantizeOptions {
  QuantMethod method = QuantMethod::rtn;
  Convention convention = Convention::compressed_tensors;
  Scheme scheme = Scheme::w4a16;
  std::vector<std::string> ignore;          // module names; "*" and "?" match, "re:" starts a regular expression
  std::map<std::string, float> input_amax;  // layer -> amax of its input; needed for w4a4
  int threads = 0;
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes, std::string_view layer)> progress;
  std::function<bool()> cancelled;  // asked between pieces; true stops with TE0247 and leaves nothing
};

struct QuantizeReport {
  struct Layer {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t k = 0;
    double relative_mse = 0.0;
    double over_four_share = 0.0;
  };
  std::vector<Layer> layers;
  std::vector<std::string> ignored;           // weights left as they were, with the reason after ": "
  std::vector<std::string> unmatched_ignore;  // ignore patterns that matched no weight
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  double seconds = 0.0;
};

// Streams a checkpoint to `out` (a folder that must not exist yet; written beside under a temporary name, synced and
// renamed). Tokenizer and other small files are copied, config.json gets the quantization_config. Layers that share an
// input (q/k/v, gate/up) share one global scale. Needs memory for a few pieces of 32 MiB, not for the model.
// Errors (input): those of open(), TE0241 to TE0248, NaN or Inf in a weight by name and position.
Result<QuantizeReport> quantize_checkpoint(const std::string& in, const std::string& out,
                                           const QuantizeOptions& options);

}  // namespace tetrad
