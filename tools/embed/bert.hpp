// A BERT encoder with mean pooling; the linear layers are the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/checkpoint.hpp"
#include "tetrad/error.hpp"

namespace tetrad::embed {

struct BertConfig {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;
  double norm_eps = 1e-12;
  std::int64_t max_length = 0;  // tokens per sentence: max_seq_length of sentence_bert_config.json, else `positions`
};

// Reads config.json (and sentence_bert_config.json where there is one). Errors (input): no such file, a missing or
// wrong field, an activation other than "gelu", a hidden size that the heads do not divide.
Result<BertConfig> read_bert_config(const std::string& folder);

// y[rows, out] = x[rows, in] * W^T + bias for the named layers ("encoder.layer.0.attention.self.query"), row-major
// fp32.
class LinearLayers {
 public:
  virtual ~LinearLayers() = default;
  virtual Status apply(std::string_view layer, std::int64_t rows, std::span<const float> x, std::span<float> y) = 0;
};

// Sentences one after the other, without padding: the attention mask is the sentence boundary.
struct Batch {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> begin{0};  // sentence s holds ids [begin[s], begin[s+1])

  void add(std::span<const std::int32_t> sentence);
  std::int64_t sentences() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
};

class Bert {
 public:
  // Reads embeddings and norms of a checkpoint, whose linear layers may be quantised. Errors (input): a missing tensor,
  // a wrong shape.
  static Result<Bert> open(const Checkpoint& checkpoint, const BertConfig& config);

  // Names and shapes of the linear layers, in the order in which the forward pass applies them.
  struct Layer {
    std::string name;
    std::int64_t out = 0;
    std::int64_t in = 0;
  };
  static std::vector<Layer> linear_layers(const BertConfig& config);

  // Unit-length sentence embeddings [sentences, hidden]. Errors: those of `linear`; (input) an id beyond the
  // vocabulary.
  Result<std::vector<float>> embed(const Batch& batch, LinearLayers& linear) const;

 private:
  struct Norm {
    std::vector<float> weight;
    std::vector<float> bias;
  };
  BertConfig config_;
  std::vector<float> words_;      // [vocabulary, hidden]
  std::vector<float> positions_;  // [positions, hidden]
  std::vector<float> type0_;      // [hidden]: all tokens are of the first segment
  Norm embedding_norm_;
  std::vector<Norm> attention_norms_;
  std::vector<Norm> output_norms_;

  void normalise(std::span<float> rows, const Norm& norm) const;
  void attention(const Batch& batch, std::span<const float> query, std::span<const float> key,
                 std::span<const float> value, std::span<float> out) const;
};

}  // namespace tetrad::embed
