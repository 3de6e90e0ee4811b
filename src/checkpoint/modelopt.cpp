// NVIDIA ModelOpt: weight (U8), weight_scale, weight_scale_2 (a multiplier), input_scale (a multiplier).
#include <fmt/format.h>

#include "checkpoint/convention.hpp"
#include "checkpoint/file.hpp"

namespace tetrad::checkpoint {

namespace {

// The quant_algo that the config gives this layer: its own, else the one for all. Both config forms are known.
std::string quant_algo(const Json& config, const std::string& layer) {
  const Json* top = &config;
  if (const auto inner = config.find("quantization"); inner != config.end() && inner->is_object()) top = &*inner;
  const auto text = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto layers = top->find("quantized_layers");
  if (layers != top->end() && layers->is_object()) {
    if (const auto own = layers->find(layer); own != layers->end() && own->is_object()) return text(*own, "quant_algo");
  }
  return text(*top, "quant_algo");
}

Result<std::optional<LayerParts>> layer_of(const Checkpoint& checkpoint, const StoredTensor& tensor,
                                           const Json& config) {
  const std::optional<std::string> layer = without_suffix(tensor.name, ".weight");
  if (!layer) return std::optional<LayerParts>();
  LayerParts parts;
  parts.name = *layer;
  parts.codes = &tensor;
  parts.scales = checkpoint.find(*layer + ".weight_scale");
  parts.global = checkpoint.find(*layer + ".weight_scale_2");
  parts.input_global = checkpoint.find(*layer + ".input_scale");
  if (parts.global == nullptr) {
    // Other 4-bit packings in U8 have no E4M3 scales.
    if (tensor.dtype != "U8" || parts.scales == nullptr || parts.scales->dtype != "F8_E4M3") {
      return std::optional<LayerParts>();
    }
    return missing_part(tensor, *layer + ".weight_scale_2");
  }
  if (parts.scales == nullptr) return missing_part(tensor, *layer + ".weight_scale");
  for (const char* extra : {".pre_quant_scale", ".svdquant_lora_a", ".svdquant_lora_b"}) {
    const StoredTensor* found = checkpoint.find(*layer + extra);
    if (found == nullptr) continue;
    return refuse("TE0235", "the layer needs more than an NVFP4 product",
                  fmt::format("{}: tensor '{}'", found->file, found->name),
                  "a layer without pre_quant_scale (AWQ) and svdquant_lora_a/b (SVDQuant)", found->name);
  }
  // There the activations are FP8 and input_scale is theirs (amax / 448), not an NVFP4 scale.
  if (quant_algo(config, *layer) == "W4A8_NVFP4_FP8") parts.input_global = nullptr;
  return std::optional<LayerParts>(parts);
}

PartNames names(std::string_view layer) {
  return {.codes = fmt::format("{}.weight", layer),
          .scales = fmt::format("{}.weight_scale", layer),
          .global = fmt::format("{}.weight_scale_2", layer),
          .input_global = fmt::format("{}.input_scale", layer),
          .global_is_vector = false,
          .kind = GlobalScale::Kind::multiplier};
}

const char* algo(Scheme scheme) { return scheme == Scheme::w4a4 ? "NVFP4" : "W4A16_NVFP4"; }

// Readers tell this convention by the producer's name, so the name is the convention's and the version is ours.
Json producer() {
  Json producer;
  producer["name"] = "modelopt";
  producer["version"] = writer_version();
  return producer;
}

Json config(Scheme scheme, const std::vector<std::string>& ignored) {
  Json args;
  args["dynamic"] = false;
  args["num_bits"] = 4;
  args["type"] = "float";
  args["group_size"] = kBlock;
  Json group;
  if (scheme == Scheme::w4a4) group["input_activations"] = args;
  group["weights"] = args;
  group["targets"] = Json::array({"Linear"});
  Json config;
  config["config_groups"]["group_0"] = std::move(group);
  config["ignore"] = ignored;
  config["quant_algo"] = algo(scheme);
  config["producer"] = producer();
  config["quant_method"] = "modelopt";
  return config;
}

}  // namespace

const ConventionRow kModelOpt{.convention = Convention::modelopt,
                              .kind = GlobalScale::Kind::multiplier,
                              .layer_of = layer_of,
                              .names = names,
                              .config = config};

Json hf_quant_config(Scheme scheme, const std::vector<std::string>& ignored) {
  Json config;
  config["producer"] = producer();
  Json& quantization = config["quantization"];
  quantization["quant_algo"] = algo(scheme);
  quantization["kv_cache_quant_algo"] = nullptr;
  quantization["group_size"] = kBlock;
  quantization["exclude_modules"] = ignored;
  return config;
}

}  // namespace tetrad::checkpoint
