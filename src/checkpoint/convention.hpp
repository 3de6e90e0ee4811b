// What the two producers' conventions share (internal): where a layer's parts lie and how its config reads.
// Sources of names, shapes and configs: compressed-tensors compressors/nvfp4/base.py and llm-compressor
// observers/fusion.py; Model-Optimizer export/convert_hf_config.py and quantization/qtensor/nvfp4_tensor.py.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/json_text.hpp"
#include "checkpoint/safetensors.hpp"
#include "tetrad/checkpoint.hpp"

namespace tetrad::checkpoint {

// What a convention says of one layer: its tensors, not yet compared with each other.
struct LayerParts {
  std::string name;
  const StoredTensor* codes = nullptr;
  const StoredTensor* scales = nullptr;
  const StoredTensor* global = nullptr;
  const StoredTensor* input_global = nullptr;  // nullptr: weights alone are quantised
};

// A part that a layer to be written consists of, in the order in which it is written.
struct PartNames {
  std::string codes;
  std::string scales;
  std::string global;
  std::string input_global;
  bool global_is_vector = false;  // shape [1], else []
  GlobalScale::Kind kind = GlobalScale::Kind::multiplier;
};

// One producer's convention.
struct ConventionRow {
  Convention convention;
  GlobalScale::Kind kind;
  // The layer whose codes `tensor` are; nullopt if it is no NVFP4 code tensor of this convention. Errors: TE0231 (a
  // part is missing), TE0235 (an arrangement that is not supported).
  Result<std::optional<LayerParts>> (*layer_of)(const Checkpoint& checkpoint, const StoredTensor& tensor,
                                                const Json& config);
  PartNames (*names)(std::string_view layer);
  // The value of config.json's quantization_config. `ignored` are module names.
  Json (*config)(Scheme scheme, const std::vector<std::string>& ignored);
};

extern const ConventionRow kCompressedTensors;
extern const ConventionRow kModelOpt;
const ConventionRow& row(Convention convention);

// hf_quant_config.json of the ModelOpt convention.
Json hf_quant_config(Scheme scheme, const std::vector<std::string>& ignored);

// "x.weight" -> "x" for the suffix ".weight"; nullopt if the name ends otherwise.
std::optional<std::string> without_suffix(std::string_view name, std::string_view suffix);
// TE0231.
Error missing_part(const StoredTensor& codes, const std::string& part);
std::string shape_text(const StoredTensor& tensor);

// Text of producer versions in written configs: no release of the named producer, as PEP 440 wants it.
std::string writer_version();

}  // namespace tetrad::checkpoint
