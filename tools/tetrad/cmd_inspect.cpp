// tetrad inspect PATH: what a checkpoint holds, per scheme.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli.hpp"
#include "tetrad/checkpoint.hpp"

namespace tetrad::cli {
namespace {

// Weights of one scheme and shape.
struct Group {
  std::string scheme;      // "nvfp4 w4a16", or a type of unquantised tensors: "BF16"
  std::string convention;  // empty for unquantised tensors
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;
};

struct Summary {
  std::vector<Group> groups;
  std::set<std::string> files;
  std::vector<std::string> ignored;
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;
  std::int64_t layers = 0;
  std::int64_t static_inputs = 0;
};

using Key = std::pair<std::string, std::vector<std::int64_t>>;

std::uint64_t product(const std::vector<std::int64_t>& shape) {
  std::uint64_t out = 1;
  for (const std::int64_t size : shape) out *= static_cast<std::uint64_t>(size);
  return out;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Module names that the config leaves out of the quantisation, in either convention.
std::vector<std::string> ignored_modules(const std::string& config_text) {
  std::vector<std::string> out;
  nlohmann::json config = nlohmann::json::parse(config_text, nullptr, false);
  if (!config.is_object()) return out;
  if (config.contains("quantization") && config["quantization"].is_object())
    config = nlohmann::json(config["quantization"]);
  for (const char* key : {"ignore", "exclude_modules"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_array()) continue;
    for (const nlohmann::json& item : *found) {
      if (item.is_string()) out.push_back(item.get<std::string>());
    }
  }
  return out;
}

Summary summarize(const Checkpoint& checkpoint, const std::vector<NvFp4Layer>& layers) {
  Summary summary;
  std::set<std::string> parts;
  std::map<Key, Group> quantised;
  for (const NvFp4Layer& layer : layers) {
    const std::string scheme = fmt::format("nvfp4 {}", name(layer.scheme));
    Group& group = quantised[{scheme + " " + std::string(name(layer.convention)), {layer.weight.rows, layer.weight.k}}];
    group.scheme = scheme;
    group.convention = name(layer.convention);
    group.shape = {layer.weight.rows, layer.weight.k};
    ++group.count;
    const std::uint64_t elements = product(group.shape);
    group.elements += elements;
    summary.elements += elements;
    ++summary.layers;
    summary.static_inputs += layer.weight.input_global ? 1 : 0;
    const bool modelopt = layer.convention == Convention::modelopt;
    const std::vector<std::string> suffixes =
        modelopt
            ? std::vector<std::string>{"weight", "weight_scale", "weight_scale_2", "input_scale"}
            : std::vector<std::string>{"weight_packed", "weight_scale", "weight_global_scale", "input_global_scale"};
    for (const std::string& suffix : suffixes) {
      const StoredTensor* part = checkpoint.find(layer.name + "." + suffix);
      if (part == nullptr) continue;
      parts.insert(part->name);
      group.bytes += part->bytes;
    }
  }
  std::map<Key, Group> dense;
  std::map<std::string, Group> others;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    summary.files.insert(tensor.file);
    summary.bytes += tensor.bytes;
    if (parts.contains(tensor.name)) continue;
    const std::uint64_t elements = product(tensor.shape);
    summary.elements += elements;
    const bool matrix = tensor.shape.size() == 2 && tensor.name.ends_with(".weight");
    Group& group = matrix ? dense[{tensor.dtype, tensor.shape}] : others[tensor.dtype];
    group.scheme = tensor.dtype;
    if (matrix) group.shape = tensor.shape;
    ++group.count;
    group.bytes += tensor.bytes;
    group.elements += elements;
  }
  for (auto& [key, group] : quantised) summary.groups.push_back(std::move(group));
  for (auto& [key, group] : dense) summary.groups.push_back(std::move(group));
  for (auto& [key, group] : others) summary.groups.push_back(std::move(group));
  summary.ignored = ignored_modules(checkpoint.quantization_config());
  return summary;
}

double bits_per_weight(std::uint64_t bytes, std::uint64_t elements) {
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

void print_text(const Context& context, const Checkpoint& checkpoint, const Summary& summary, bool all_tensors) {
  std::string out = fmt::format("checkpoint   {}\n", checkpoint.path());
  out += fmt::format("size         {} in {} tensors, {} file{}\n", bytes_text(static_cast<double>(summary.bytes)),
                     checkpoint.tensors().size(), summary.files.size(), summary.files.size() == 1 ? "" : "s");
  out +=
      fmt::format("NVFP4        {} layers, {} with a static activation scale\n", summary.layers, summary.static_inputs);
  out += fmt::format("bits/weight  {:.3f} over everything, scales included\n\n",
                     bits_per_weight(summary.bytes, summary.elements));
  Table table({{"SCHEME"}, {"CONVENTION"}, {"SHAPE [n, k]"}, {"COUNT", true}, {"BYTES", true}, {"BITS/WEIGHT", true}});
  for (const Group& group : summary.groups) {
    table.row({group.scheme, group.convention.empty() ? "-" : group.convention,
               group.shape.empty() ? "other" : shape_text(group.shape), std::to_string(group.count),
               bytes_text(static_cast<double>(group.bytes)),
               fmt::format("{:.3f}", bits_per_weight(group.bytes, group.elements))});
  }
  out += table.text(context);
  if (!summary.ignored.empty()) {
    out += fmt::format("\nignored by the config: {}\n", summary.ignored.size());
    constexpr std::size_t kShown = 12;
    for (std::size_t i = 0; i < summary.ignored.size() && (i < kShown || context.verbosity > 0); ++i) {
      out += "  " + summary.ignored[i] + "\n";
    }
    if (summary.ignored.size() > kShown && context.verbosity <= 0) {
      out += fmt::format("  and {} more (-v lists all)\n", summary.ignored.size() - kShown);
    }
  }
  if (all_tensors) {
    Table list({{"TENSOR", false, true}, {"TYPE"}, {"SHAPE"}, {"BYTES", true}, {"FILE"}});
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      list.row({tensor.name, tensor.dtype, shape_text(tensor.shape), std::to_string(tensor.bytes), tensor.file});
    }
    out += "\n" + list.text(context);
  }
  print(out);
}

void print_document(const Context& context, const Checkpoint& checkpoint, const Summary& summary, bool all_tensors) {
  nlohmann::json out = document(context, "tetrad.inspect/1.0");
  out["path"] = checkpoint.path();
  out["files"] = summary.files;
  out["tensor_count"] = checkpoint.tensors().size();
  out["bytes"] = summary.bytes;
  out["weights"] = summary.elements;
  out["bits_per_weight"] = bits_per_weight(summary.bytes, summary.elements);
  out["nvfp4_layers"] = summary.layers;
  out["static_input_scales"] = summary.static_inputs;
  out["groups"] = nlohmann::json::array();
  for (const Group& group : summary.groups) {
    nlohmann::json item = {{"scheme", group.scheme},
                           {"convention", nullptr},
                           {"shape", nullptr},
                           {"count", group.count},
                           {"bytes", group.bytes},
                           {"weights", group.elements},
                           {"bits_per_weight", bits_per_weight(group.bytes, group.elements)}};
    if (!group.convention.empty()) item["convention"] = group.convention;
    if (!group.shape.empty()) item["shape"] = group.shape;
    out["groups"].push_back(std::move(item));
  }
  out["ignored"] = summary.ignored;
  if (all_tensors) {
    out["tensors"] = nlohmann::json::array();
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      out["tensors"].push_back({{"name", tensor.name},
                                {"dtype", tensor.dtype},
                                {"shape", tensor.shape},
                                {"bytes", tensor.bytes},
                                {"file", tensor.file}});
    }
  }
  print_json(out);
}

int inspect(const Context& context, const std::string& path, bool all_tensors) {
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint) return report(context, checkpoint.error());
  Result<std::vector<NvFp4Layer>> layers = checkpoint->nvfp4_layers(LayerCheck::structure);
  if (!layers) return report(context, layers.error());
  const Summary summary = summarize(*checkpoint, *layers);
  if (context.json) {
    print_document(context, *checkpoint, summary, all_tensors);
  } else {
    print_text(context, *checkpoint, summary, all_tensors);
  }
  return kOk;
}

}  // namespace

Verb verb_inspect() {
  Verb verb;
  verb.name = "inspect";
  verb.group = "Read files";
  verb.summary = "Show a checkpoint's layers, schemes, shapes and bytes";
  verb.examples =
      "tetrad inspect model-nvfp4\n"
      "tetrad inspect model-nvfp4 --json\n"
      "tetrad inspect model.safetensors --tensors";
  verb.add = [](CLI::App& app) -> Action {
    struct Options {
      std::string path;
      bool tensors = false;
    };
    auto options = std::make_shared<Options>();
    app.add_option("PATH", options->path, "Checkpoint folder or .safetensors file")->required();
    app.add_flag("--tensors", options->tensors, "List every tensor: type, shape, bytes, file [default: off]");
    return [options](Context& context) { return inspect(context, options->path, options->tensors); };
  };
  return verb;
}

}  // namespace tetrad::cli
