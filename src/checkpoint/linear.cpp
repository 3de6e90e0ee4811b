#include "checkpoint/linear.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "checkpoint/convention.hpp"
#include "core/text.hpp"
#include "tetrad/tensor.hpp"

namespace tetrad::checkpoint {

namespace {

std::vector<std::string> words_of(std::string_view module) {
  std::vector<std::string> words;
  while (!module.empty()) {
    const std::size_t dot = module.find('.');
    words.push_back(core::lower(module.substr(0, dot)));
    module = dot == std::string_view::npos ? std::string_view() : module.substr(dot + 1);
  }
  return words;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <std::size_t N>
bool one_of(std::string_view word, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// Model types whose "linear" layers are Conv1D modules, stored [k, n].
constexpr std::string_view kConv1d[] = {"gpt2", "openai-gpt", "imagegpt", "decision_transformer"};
constexpr std::string_view kEmbeddings[] = {"wte", "wpe", "shared", "emb", "tok_emb", "pos_emb", "position"};
constexpr std::string_view kHeads[] = {"lm_head", "embed_out", "output_layer", "score"};
constexpr std::string_view kRouters[] = {"gate", "router", "wg", "shared_expert_gate", "gate_weight"};
constexpr std::string_view kTables[] = {"relative_attention_bias", "relative_position_bias_table", "rel_pos_h",
                                        "rel_pos_w"};

std::optional<std::string> by_name(std::string_view module) {
  const std::vector<std::string> words = words_of(module);
  for (const std::string& word : words) {
    if (has(word, "embed") || one_of(word, kEmbeddings)) return "embedding by its name";
    if (has(word, "lora_")) return "adapter by its name";
  }
  const std::string& last = words.back();
  if (one_of(last, kHeads) || module == "output" || has(module, "cls.predictions.decoder")) {
    return "output head by its name";
  }
  if (one_of(last, kRouters) || has(last, "router")) return "router by its name";
  if (has(last, "norm") || last == "ln") return "normalisation by its name";
  if (one_of(last, kTables)) return "position table by its name";
  if (has(last, "conv")) return "convolution by its name";
  return std::nullopt;
}

}  // namespace

ModelFacts model_facts(const Json& config) {
  ModelFacts facts;
  const auto number = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : std::int64_t{0};
  };
  facts.vocab_size = number(config, "vocab_size");
  // Multi-modal models keep the language model's facts one level below.
  if (const auto text = config.find("text_config");
      facts.vocab_size == 0 && text != config.end() && text->is_object()) {
    facts.vocab_size = number(*text, "vocab_size");
  }
  if (const auto type = config.find("model_type"); type != config.end() && type->is_string()) {
    facts.model_type = type->get<std::string>();
  }
  return facts;
}

struct IgnoreList::Pattern {
  std::string text;
  std::optional<std::regex> regex;
  bool matched = false;
};

IgnoreList::IgnoreList() = default;
IgnoreList::IgnoreList(IgnoreList&&) noexcept = default;
IgnoreList& IgnoreList::operator=(IgnoreList&&) noexcept = default;
IgnoreList::~IgnoreList() = default;

Result<IgnoreList> IgnoreList::make(const std::vector<std::string>& patterns) {
  IgnoreList list;
  for (const std::string& text : patterns) {
    Pattern pattern;
    pattern.text = text;
    if (text.starts_with("re:")) {
      try {
        pattern.regex = std::regex(text.substr(3), std::regex::ECMAScript);
      } catch (const std::regex_error& fault) {
        return Error{.kind = ErrorKind::usage,
                     .id = "TE0248",
                     .what = "an ignore pattern is no regular expression",
                     .where = fmt::format("'{}'", text),
                     .need = "an ECMAScript regular expression after re:",
                     .have = fault.what(),
                     .causes = {},
                     .hint = {}};
      }
    }
    list.patterns_.push_back(std::move(pattern));
  }
  return list;
}

const std::string* IgnoreList::match(const std::string& module) {
  const std::string* first = nullptr;
  for (Pattern& pattern : patterns_) {
    const bool hit = pattern.regex ? std::regex_search(module, *pattern.regex, std::regex_constants::match_continuous)
                                   : core::glob_match(pattern.text, module);
    if (!hit) continue;
    pattern.matched = true;
    if (first == nullptr) first = &pattern.text;
  }
  return first;
}

std::vector<std::string> IgnoreList::unmatched() const {
  std::vector<std::string> out;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.matched) out.push_back(pattern.text);
  }
  return out;
}

bool is_fused_experts(const HeaderTensor& tensor) {
  return tensor.shape.size() == 3 && has(tensor.name, "experts") && !tensor.name.ends_with("bias") &&
         (tensor.dtype == "BF16" || tensor.dtype == "F16" || tensor.dtype == "F32");
}

std::optional<std::string> not_linear(const HeaderTensor& tensor, const ModelFacts& facts) {
  if (is_fused_experts(tensor)) return "experts in one tensor of 3 dimensions";
  if (tensor.shape.size() != 2) return "";
  const std::optional<std::string> module = without_suffix(tensor.name, ".weight");
  const bool floating = tensor.dtype == "BF16" || tensor.dtype == "F16" || tensor.dtype == "F32";
  if (!module) return floating ? "its name does not end in .weight" : "";
  if (!floating) return fmt::format("type {} is none of BF16, F16, F32", tensor.dtype);
  if (std::optional<std::string> reason = by_name(*module)) return reason;
  const std::int64_t n = tensor.shape[0];
  const std::int64_t k = tensor.shape[1];
  if (facts.vocab_size > 0 && n == facts.vocab_size) {
    return fmt::format("embedding or output head: {} rows = vocab_size", n);
  }
  if (one_of(facts.model_type, kConv1d)) return fmt::format("model type {} stores [k, n]", facts.model_type);
  if (n == 0 || k == 0) return "it is empty";
  if (k % kBlock != 0) return fmt::format("k = {} is not a multiple of {}", k, kBlock);
  return std::nullopt;
}

std::string fused_key(std::string_view module) {
  struct Fused {
    std::string_view shard;
    std::string_view group;
  };
  // Shards that serving engines merge into one product (llm-compressor observers/fusion.py, and what vLLM stacks).
  static constexpr Fused kFused[] = {
      {"q_proj", "qkv"},
      {"k_proj", "qkv"},
      {"v_proj", "qkv"},
      {"query", "qkv"},
      {"key", "qkv"},
      {"value", "qkv"},
      {"wq", "qkv"},
      {"wk", "qkv"},
      {"wv", "qkv"},
      {"gate_proj", "gate_up"},
      {"up_proj", "gate_up"},
      {"w1", "w13"},
      {"w3", "w13"},
      {"wi_0", "wi"},
      {"wi_1", "wi"},
      {"q_a_proj", "qkv_a"},
      {"wq_a", "qkv_a"},
      {"kv_a_proj_with_mqa", "qkv_a"},
      {"wkv_a_with_mqa", "qkv_a"},
      {"in_proj_qkv", "in"},
      {"in_proj_z", "in"},
  };
  const std::size_t dot = module.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  for (const Fused& row : kFused) {
    if (row.shard != last) continue;
    const std::string_view parent = dot == std::string_view::npos ? std::string_view() : module.substr(0, dot + 1);
    // A name with a blank cannot be a module's.
    return fmt::format("{} {}", parent, row.group);
  }
  return std::string(module);
}

}  // namespace tetrad::checkpoint
