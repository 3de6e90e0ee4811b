#include "bert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "model_tensor.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad::embed {
namespace {

Error bad_config(std::string what, std::string where, std::string need, std::string have) {
  return Error{ErrorKind::input, "TE0651", std::move(what), std::move(where), std::move(need), std::move(have), {}, ""};
}

Result<nlohmann::json> read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad_config("the model has no configuration", path, "a JSON file", "no such file");
  nlohmann::json value = nlohmann::json::parse(file, nullptr, false);
  if (!value.is_object()) return bad_config("the configuration is not a JSON object", path, "an object", "other text");
  return value;
}

// A stored tensor as fp32 values.
Result<std::vector<float>> load(const Checkpoint& checkpoint, const std::string& name, std::int64_t rows,
                                std::int64_t cols) {
  const StoredTensor* stored = checkpoint.find(name);
  if (stored == nullptr) stored = checkpoint.find("bert." + name);
  const Result<ConstMatrix> matrix =
      model_tensor(checkpoint, stored, name, rows, cols, "quantise with --ignore for embeddings and norms");
  if (!matrix) return matrix.error();
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) values[static_cast<std::size_t>(r * cols + c)] = element(*matrix, r, c);
  }
  return values;
}

void gelu(std::span<float> values) {
  for (float& v : values) v = static_cast<float>(0.5 * v * (1.0 + std::erf(v * 0.70710678118654752440)));
}

void add(std::span<float> into, std::span<const float> other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += other[i];
}

std::string layer_name(std::int64_t index, std::string_view part) {
  return fmt::format("encoder.layer.{}.{}", index, part);
}

}  // namespace

Result<BertConfig> read_bert_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const Result<nlohmann::json> json = read_json(path);
  if (!json) return json.error();
  BertConfig config;
  const std::pair<const char*, std::int64_t*> sizes[] = {
      {"hidden_size", &config.hidden},        {"intermediate_size", &config.intermediate},
      {"num_attention_heads", &config.heads}, {"num_hidden_layers", &config.layers},
      {"vocab_size", &config.vocabulary},     {"max_position_embeddings", &config.positions}};
  for (const auto& [key, slot] : sizes) {
    const auto found = json->find(key);
    if (found == json->end() || !found->is_number_integer() || found->get<std::int64_t>() <= 0 ||
        found->get<std::int64_t>() > (std::int64_t{1} << 24)) {
      return bad_config(fmt::format("the configuration has no usable '{}'", key), path, "an integer from 1 to 2^24",
                        found == json->end() ? "nothing" : found->dump());
    }
    *slot = found->get<std::int64_t>();
  }
  if (config.hidden % config.heads != 0) {
    return bad_config("the heads do not divide the hidden size", path, fmt::format("a divisor of {}", config.hidden),
                      fmt::format("{} heads", config.heads));
  }
  const std::string act = json->value("hidden_act", "gelu");
  if (act != "gelu") return bad_config("the activation is not supported", path, "gelu", act);
  config.norm_eps = json->value("layer_norm_eps", 1e-12);
  config.max_length = config.positions;
  const std::string sentence = folder + "/sentence_bert_config.json";
  if (std::filesystem::exists(sentence)) {
    const Result<nlohmann::json> limits = read_json(sentence);
    if (!limits) return limits.error();
    config.max_length =
        std::clamp<std::int64_t>(limits->value("max_seq_length", config.positions), 2, config.positions);
  }
  return config;
}

void Batch::add(std::span<const std::int32_t> sentence) {
  ids.insert(ids.end(), sentence.begin(), sentence.end());
  begin.push_back(static_cast<std::int64_t>(ids.size()));
}

std::vector<Bert::Layer> Bert::linear_layers(const BertConfig& config) {
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    for (const char* part : {"query", "key", "value"}) {
      layers.push_back({layer_name(i, std::string("attention.self.") + part), config.hidden, config.hidden});
    }
    layers.push_back({layer_name(i, "attention.output.dense"), config.hidden, config.hidden});
    layers.push_back({layer_name(i, "intermediate.dense"), config.intermediate, config.hidden});
    layers.push_back({layer_name(i, "output.dense"), config.hidden, config.intermediate});
  }
  return layers;
}

Result<Bert> Bert::open(const Checkpoint& checkpoint, const BertConfig& config) {
  Bert bert;
  bert.config_ = config;
  const std::int64_t h = config.hidden;
  std::vector<float> types;
  struct Need {
    std::string name;
    std::int64_t rows;
    std::vector<float>* into;
  };
  bert.attention_norms_.resize(static_cast<std::size_t>(config.layers));
  bert.output_norms_.resize(static_cast<std::size_t>(config.layers));
  std::vector<Need> needs = {{"embeddings.word_embeddings.weight", config.vocabulary, &bert.words_},
                             {"embeddings.position_embeddings.weight", config.positions, &bert.positions_}};
  const auto need_norm = [&](const std::string& name, Norm& norm) {
    needs.push_back({name + ".weight", 1, &norm.weight});
    needs.push_back({name + ".bias", 1, &norm.bias});
  };
  need_norm("embeddings.LayerNorm", bert.embedding_norm_);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    need_norm(layer_name(i, "attention.output.LayerNorm"), bert.attention_norms_[static_cast<std::size_t>(i)]);
    need_norm(layer_name(i, "output.LayerNorm"), bert.output_norms_[static_cast<std::size_t>(i)]);
  }
  for (const Need& need : needs) {
    Result<std::vector<float>> values = load(checkpoint, need.name, need.rows, h);
    if (!values) return values.error();
    *need.into = std::move(*values);
  }
  const std::string type_name = "embeddings.token_type_embeddings.weight";
  const StoredTensor* type_tensor = checkpoint.find(type_name);
  const std::int64_t type_rows = type_tensor != nullptr && !type_tensor->shape.empty() ? type_tensor->shape[0] : 2;
  Result<std::vector<float>> type_values = load(checkpoint, type_name, type_rows, h);
  if (!type_values) return type_values.error();
  bert.type0_.assign(type_values->begin(), type_values->begin() + h);
  return bert;
}

void Bert::normalise(std::span<float> rows, const Norm& norm) const {
  const std::int64_t h = config_.hidden;
  const auto count = static_cast<std::int64_t>(rows.size()) / h;
  for (std::int64_t r = 0; r < count; ++r) {
    float* row = rows.data() + r * h;
    double mean = 0.0;
    for (std::int64_t i = 0; i < h; ++i) mean += row[i];
    mean /= static_cast<double>(h);
    double variance = 0.0;
    for (std::int64_t i = 0; i < h; ++i) variance += (row[i] - mean) * (row[i] - mean);
    const double inverse = 1.0 / std::sqrt(variance / static_cast<double>(h) + config_.norm_eps);
    for (std::int64_t i = 0; i < h; ++i) {
      row[i] = static_cast<float>((row[i] - mean) * inverse * norm.weight[i] + norm.bias[i]);
    }
  }
}

// Softmax(q k^T / sqrt(d)) v per sentence and head.
void Bert::attention(const Batch& batch, std::span<const float> query, std::span<const float> key,
                     std::span<const float> value, std::span<float> out) const {
  const std::int64_t h = config_.hidden;
  const std::int64_t d = h / config_.heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  parallel_for(batch.sentences() * config_.heads, 1, 0, [&](std::int64_t first, std::int64_t last, int) {
    std::vector<double> score;
    std::vector<double> sum(static_cast<std::size_t>(d));
    for (std::int64_t job = first; job < last; ++job) {
      const std::int64_t s = job / config_.heads;
      const std::int64_t column = job % config_.heads * d;
      const std::int64_t begin = batch.begin[static_cast<std::size_t>(s)];
      const std::int64_t end = batch.begin[static_cast<std::size_t>(s) + 1];
      score.resize(static_cast<std::size_t>(end - begin));
      for (std::int64_t i = begin; i < end; ++i) {
        const float* q = query.data() + i * h + column;
        double top = -INFINITY;
        for (std::int64_t j = begin; j < end; ++j) {
          const float* k = key.data() + j * h + column;
          double dot = 0.0;
          for (std::int64_t e = 0; e < d; ++e) dot += static_cast<double>(q[e]) * k[e];
          score[static_cast<std::size_t>(j - begin)] = dot * scale;
          top = std::max(top, dot * scale);
        }
        double total = 0.0;
        for (double& x : score) total += x = std::exp(x - top);
        std::fill(sum.begin(), sum.end(), 0.0);
        for (std::int64_t j = begin; j < end; ++j) {
          const double share = score[static_cast<std::size_t>(j - begin)] / total;
          const float* v = value.data() + j * h + column;
          for (std::int64_t e = 0; e < d; ++e) sum[static_cast<std::size_t>(e)] += share * v[e];
        }
        for (std::int64_t e = 0; e < d; ++e) {
          out[static_cast<std::size_t>(i * h + column + e)] = static_cast<float>(sum[static_cast<std::size_t>(e)]);
        }
      }
    }
  });
}

Result<std::vector<float>> Bert::embed(const Batch& batch, LinearLayers& linear) const {
  const std::int64_t h = config_.hidden;
  const std::int64_t rows = batch.tokens();
  const auto size = static_cast<std::size_t>(rows * h);
  std::vector<float> state(size);
  for (std::int64_t s = 0; s < batch.sentences(); ++s) {
    const std::int64_t begin = batch.begin[static_cast<std::size_t>(s)];
    const std::int64_t end = batch.begin[static_cast<std::size_t>(s) + 1];
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = batch.ids[static_cast<std::size_t>(r)];
      if (id < 0 || id >= config_.vocabulary || r - begin >= config_.positions) {
        return Error{ErrorKind::input,
                     "TE0653",
                     "a token does not fit the model",
                     fmt::format("sentence {}, token {}", s + 1, r - begin),
                     fmt::format("id below {}, position below {}", config_.vocabulary, config_.positions),
                     fmt::format("id {}, position {}", id, r - begin),
                     {},
                     ""};
      }
      for (std::int64_t i = 0; i < h; ++i) {
        state[static_cast<std::size_t>(r * h + i)] = words_[static_cast<std::size_t>(id * h + i)] +
                                                     type0_[static_cast<std::size_t>(i)] +
                                                     positions_[static_cast<std::size_t>((r - begin) * h + i)];
      }
    }
  }
  normalise(state, embedding_norm_);

  std::vector<float> query(size), key(size), value(size), mixed(size), projected(size);
  std::vector<float> wide(static_cast<std::size_t>(rows * config_.intermediate));
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    const auto apply = [&](std::string_view part, std::span<const float> x, std::span<float> y) {
      return linear.apply(layer_name(l, part), rows, x, y);
    };
    if (Status s = apply("attention.self.query", state, query); !s) return s.error();
    if (Status s = apply("attention.self.key", state, key); !s) return s.error();
    if (Status s = apply("attention.self.value", state, value); !s) return s.error();
    attention(batch, query, key, value, mixed);
    if (Status s = apply("attention.output.dense", mixed, projected); !s) return s.error();
    add(state, projected);
    normalise(state, attention_norms_[static_cast<std::size_t>(l)]);
    if (Status s = apply("intermediate.dense", state, wide); !s) return s.error();
    gelu(wide);
    if (Status s = apply("output.dense", wide, projected); !s) return s.error();
    add(state, projected);
    normalise(state, output_norms_[static_cast<std::size_t>(l)]);
  }

  std::vector<float> pooled(static_cast<std::size_t>(batch.sentences() * h));
  std::vector<double> mean(static_cast<std::size_t>(h));
  for (std::int64_t s = 0; s < batch.sentences(); ++s) {
    std::fill(mean.begin(), mean.end(), 0.0);
    const std::int64_t begin = batch.begin[static_cast<std::size_t>(s)];
    const std::int64_t end = batch.begin[static_cast<std::size_t>(s) + 1];
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t i = 0; i < h; ++i)
        mean[static_cast<std::size_t>(i)] += state[static_cast<std::size_t>(r * h + i)];
    }
    double length = 0.0;
    for (double& x : mean) {
      x /= static_cast<double>(end - begin);
      length += x * x;
    }
    length = std::max(std::sqrt(length), 1e-12);
    for (std::int64_t i = 0; i < h; ++i) {
      pooled[static_cast<std::size_t>(s * h + i)] = static_cast<float>(mean[static_cast<std::size_t>(i)] / length);
    }
  }
  return pooled;
}

}  // namespace tetrad::embed
