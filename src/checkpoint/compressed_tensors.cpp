// compressed-tensors, format "nvfp4-pack-quantized": weight_packed, weight_scale, weight_global_scale (a divisor),
// input_global_scale (a divisor).
#include <fmt/format.h>

#include "checkpoint/convention.hpp"
#include "checkpoint/file.hpp"

namespace tetrad::checkpoint {

namespace {

Result<std::optional<LayerParts>> layer_of(const Checkpoint& checkpoint, const StoredTensor& tensor, const Json&) {
  const std::optional<std::string> layer = without_suffix(tensor.name, ".weight_packed");
  if (!layer) return std::optional<LayerParts>();
  LayerParts parts;
  parts.name = *layer;
  parts.codes = &tensor;
  parts.scales = checkpoint.find(*layer + ".weight_scale");
  parts.global = checkpoint.find(*layer + ".weight_global_scale");
  parts.input_global = checkpoint.find(*layer + ".input_global_scale");
  if (parts.global == nullptr) {
    // Integer (I32) and MXFP4 (scales per 32, U8) packings use the same name and have no global scale.
    const bool nvfp4 = tensor.dtype == "U8" && (parts.scales == nullptr || parts.scales->dtype == "F8_E4M3");
    if (!nvfp4) return std::optional<LayerParts>();
    return missing_part(tensor, *layer + ".weight_global_scale");
  }
  if (parts.scales == nullptr) return missing_part(tensor, *layer + ".weight_scale");
  return std::optional<LayerParts>(parts);
}

PartNames names(std::string_view layer) {
  return {.codes = fmt::format("{}.weight_packed", layer),
          .scales = fmt::format("{}.weight_scale", layer),
          .global = fmt::format("{}.weight_global_scale", layer),
          .input_global = fmt::format("{}.input_global_scale", layer),
          .global_is_vector = true,
          .kind = GlobalScale::Kind::divisor};
}

Json quant_args(bool activations) {
  Json args;
  args["actorder"] = nullptr;
  args["block_structure"] = nullptr;
  args["dynamic"] = false;
  // The global scale is static, the scales per 16 are found at run time.
  if (activations) args["dynamic"] = "local";
  args["group_size"] = kBlock;
  args["num_bits"] = 4;
  args["observer"] = activations ? "static_minmax" : "memoryless_minmax";
  args["observer_kwargs"] = Json::object();
  args["scale_dtype"] = "torch.float8_e4m3fn";
  args["strategy"] = "tensor_group";
  args["symmetric"] = true;
  args["type"] = "float";
  args["zp_dtype"] = nullptr;
  return args;
}

Json config(Scheme scheme, const std::vector<std::string>& ignored) {
  Json group;
  group["format"] = "nvfp4-pack-quantized";
  group["input_activations"] = scheme == Scheme::w4a4 ? quant_args(true) : Json(nullptr);
  group["output_activations"] = nullptr;
  group["targets"] = Json::array({"Linear"});
  group["weights"] = quant_args(false);
  Json config;
  config["config_groups"]["group_0"] = std::move(group);
  config["format"] = "nvfp4-pack-quantized";
  config["global_compression_ratio"] = nullptr;
  config["ignore"] = ignored;
  config["kv_cache_scheme"] = nullptr;
  config["quant_method"] = "compressed-tensors";
  config["quantization_status"] = "compressed";
  config["sparsity_config"] = Json::object();
  config["transform_config"] = Json::object();
  config["version"] = writer_version();
  return config;
}

}  // namespace

const ConventionRow kCompressedTensors{.convention = Convention::compressed_tensors,
                                       .kind = GlobalScale::Kind::divisor,
                                       .layer_of = layer_of,
                                       .names = names,
                                       .config = config};

}  // namespace tetrad::checkpoint
