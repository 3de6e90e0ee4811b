// Which weights of a dense checkpoint are linear layers to quantise, and which of them are fused (internal).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/json_text.hpp"
#include "checkpoint/safetensors.hpp"
#include "tetrad/error.hpp"

namespace tetrad::checkpoint {

// What config.json says that bears on the question; zero or empty where it says nothing.
struct ModelFacts {
  std::int64_t vocab_size = 0;
  std::string model_type;
};
ModelFacts model_facts(const Json& config);

// Module names: exact, with "*" and "?", or "re:" and a regular expression that matches from the name's start.
class IgnoreList {
 public:
  // Error (usage): TE0248, a regular expression that does not compile.
  static Result<IgnoreList> make(const std::vector<std::string>& patterns);
  // The first pattern that matches; nullptr if none does. Remembers which patterns matched.
  const std::string* match(const std::string& module);
  std::vector<std::string> unmatched() const;

 private:
  struct Pattern;
  std::vector<Pattern> patterns_;

 public:
  IgnoreList();
  IgnoreList(IgnoreList&&) noexcept;
  IgnoreList& operator=(IgnoreList&&) noexcept;
  ~IgnoreList();
};

// The experts of a layer in one floating point tensor of 3 dimensions. Families disagree about the order: [experts, n,
// k] (Qwen), [experts, k, n] (Llama 4), gate and up interleaved (gpt-oss).
bool is_fused_experts(const HeaderTensor& tensor);
// Why a weight is left as it is; nullopt if it is the weight [n, k] of a linear layer whose k NVFP4 can hold. Decides
// by the name's words, the vocabulary size and the model type, and when in doubt leaves the weight alone. Tensors that
// are no weights at all (fewer than 2 dimensions, convolutions) give an empty reason.
std::optional<std::string> not_linear(const HeaderTensor& tensor, const ModelFacts& facts);

// Layers with the same key read the same input and run as one product, so they share one global scale
// ("model.layers.0.self_attn" + "qkv"). Layers that are not fused have their own name as key.
std::string fused_key(std::string_view module);

}  // namespace tetrad::checkpoint
