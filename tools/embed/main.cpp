// tetrad-embed MODEL --sentences FILE [--quantized DIR]...: a sentence encoder's forward pass, every linear layer of
// the quantised checkpoints through Tetrad, compared with the original.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert.hpp"
#include "dense.hpp"
#include "measure.hpp"
#include "nvfp4_linear.hpp"
#include "tokenizer.hpp"

namespace tetrad::embed {
namespace {

struct Options {
  std::string model;
  std::string sentences;
  std::vector<std::string> quantized;
  std::string record_amax;
  int threads = 0;
  bool json = false;
};

double seconds_of(const std::chrono::steady_clock::time_point& begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double cosine(const std::vector<float>& a, std::size_t i, const std::vector<float>& b, std::size_t j, std::size_t h) {
  double dot = 0.0, aa = 0.0, bb = 0.0;
  for (std::size_t e = 0; e < h; ++e) {
    dot += double{a[i * h + e]} * b[j * h + e];
    aa += double{a[i * h + e]} * a[i * h + e];
    bb += double{b[j * h + e]} * b[j * h + e];
  }
  return dot / std::sqrt(aa * bb);
}

// One quantised checkpoint's forward pass.
struct Pass {
  std::string path;
  std::string scheme;
  double seconds = 0.0;  // of the forward pass, comparisons excluded
  std::vector<float> embeddings;
  std::vector<LayerRecord> layers;
  std::vector<double> cosines;  // per sentence, against the original
};

int fail(const Error& error) {
  fmt::print(stderr, "error[{}]: {}\n", error.id, error.what);
  if (!error.where.empty()) fmt::print(stderr, "  where  {}\n", error.where);
  if (!error.need.empty()) fmt::print(stderr, "  need   {}\n", error.need);
  if (!error.have.empty()) fmt::print(stderr, "  have   {}\n", error.have);
  for (const std::string& cause : error.causes) fmt::print(stderr, "  cause  {}\n", cause);
  if (!error.hint.empty()) fmt::print(stderr, "  try    {}\n", error.hint);
  switch (error.kind) {
    case ErrorKind::usage:
    case ErrorKind::input:
      return 2;
    case ErrorKind::unavailable:
      return 3;
    case ErrorKind::check:
      return 4;
    case ErrorKind::internal:
      return 70;
  }
  return 70;
}

Result<std::vector<std::string>> read_sentences(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.empty()) {
    return Error{
        ErrorKind::input, "TE0655", "no sentences to embed", path, "a text file, one sentence a line", "none", {}, ""};
  }
  return lines;
}

Result<Pass> run_quantised(const std::string& path, const BertConfig& config, const Batch& batch, DenseLinear& original,
                           const std::vector<float>& expected, int threads) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint) return checkpoint.error();
  const Result<Bert> bert = Bert::open(*checkpoint, config);
  if (!bert) return bert.error();
  Result<Nvfp4Linear> linear = Nvfp4Linear::open(*checkpoint, Bert::linear_layers(config), batch.tokens(), threads);
  if (!linear) return linear.error();
  Pass pass;
  pass.path = path;
  pass.scheme = name(linear->scheme());
  // First pass: judged layer by layer. Second pass: timed, alone.
  linear->compare_with(&original);
  Result<std::vector<float>> judged = bert->embed(batch, *linear);
  if (!judged) return judged.error();
  linear->compare_with(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  Result<std::vector<float>> embeddings = bert->embed(batch, *linear);
  if (!embeddings) return embeddings.error();
  pass.seconds = seconds_of(begin);
  pass.embeddings = std::move(*embeddings);
  pass.layers = linear->records();
  const auto h = static_cast<std::size_t>(config.hidden);
  for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sentences()); ++s) {
    pass.cosines.push_back(cosine(expected, s, pass.embeddings, s, h));
  }
  return pass;
}

void show_layers(const Pass& pass, std::int64_t rows) {
  fmt::print("\n{}: {}, {} linear layers through Tetrad, M {}, {:.0f} ms for the forward pass\n", pass.path,
             pass.scheme, pass.layers.size(), rows, pass.seconds * 1e3);
  fmt::print("{:<40} {:>9} {:<18} {:>8} {:>9} {:<6} {:>8}\n", "LAYER", "N x K", "KERNEL", "TIME us", "ERR/BOUND",
             "RESULT", "TO ORIG");
  for (const LayerRecord& layer : pass.layers) {
    fmt::print("{:<40} {:>9} {:<18} {:>8.0f} {:>9.4f} {:<6} {:>6.2f} %\n", layer.name,
               fmt::format("{}x{}", layer.n, layer.k), layer.kernel, layer.seconds * 1e6, layer.report.worst_ratio,
               measure::word(layer.report.judgement), layer.relative_to_original * 100.0);
  }
}

void show_similarity(const std::vector<float>& original, const std::vector<Pass>& passes, std::size_t count,
                     std::size_t h) {
  struct Pair {
    std::size_t a, b;
    double value;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) pairs.push_back({i, j, cosine(original, i, original, j, h)});
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.value > b.value; });
  pairs.resize(std::min<std::size_t>(pairs.size(), 4));
  fmt::print("\n{:<22} {:>8}", "most similar sentences", "original");
  for (const Pass& pass : passes) fmt::print(" {:>8}", pass.scheme);
  fmt::print("\n");
  for (const Pair& pair : pairs) {
    fmt::print("{:<22} {:>8.4f}", fmt::format("{} and {}", pair.a + 1, pair.b + 1), pair.value);
    for (const Pass& pass : passes)
      fmt::print(" {:>8.4f}", cosine(pass.embeddings, pair.a, pass.embeddings, pair.b, h));
    fmt::print("\n");
  }
}

void show_cosines(const std::vector<std::string>& sentences, const std::vector<Pass>& passes) {
  fmt::print("\ncosine of each sentence's embedding with the original's\n");
  for (const Pass& pass : passes) fmt::print("{:>9}", pass.scheme);
  fmt::print("  sentence\n");
  for (std::size_t s = 0; s < sentences.size(); ++s) {
    for (const Pass& pass : passes) fmt::print("{:>9.5f}", pass.cosines[s]);
    fmt::print("  {:>2} {}\n", s + 1, sentences[s]);
  }
  for (const Pass& pass : passes) {
    double sum = 0.0;
    for (const double value : pass.cosines) sum += value;
    fmt::print("{}: mean {:.5f}, lowest {:.5f}\n", pass.scheme, sum / static_cast<double>(pass.cosines.size()),
               *std::min_element(pass.cosines.begin(), pass.cosines.end()));
  }
}

nlohmann::json to_json(const Pass& pass) {
  nlohmann::json out = {
      {"path", pass.path}, {"scheme", pass.scheme}, {"forward_time_ns", pass.seconds * 1e9}, {"cosines", pass.cosines}};
  out["layers"] = nlohmann::json::array();
  for (const LayerRecord& layer : pass.layers) {
    out["layers"].push_back({{"layer", layer.name},
                             {"n", layer.n},
                             {"k", layer.k},
                             {"kernel", layer.kernel},
                             {"time_ns", layer.seconds * 1e9},
                             {"bound_ratio", layer.report.worst_ratio},
                             {"judgement", measure::word(layer.report.judgement)},
                             {"relative_error_to_original", layer.relative_to_original}});
  }
  return out;
}

int run(const Options& options) {
  const Result<std::vector<std::string>> sentences = read_sentences(options.sentences);
  if (!sentences) return fail(sentences.error());
  const Result<BertConfig> config = read_bert_config(options.model);
  if (!config) return fail(config.error());
  const Result<Tokenizer> tokenizer = Tokenizer::open(options.model + "/vocab.txt");
  if (!tokenizer) return fail(tokenizer.error());
  const Result<Checkpoint> checkpoint = Checkpoint::open(options.model);
  if (!checkpoint) return fail(checkpoint.error());
  const Result<Bert> bert = Bert::open(*checkpoint, *config);
  if (!bert) return fail(bert.error());
  Result<DenseLinear> dense = DenseLinear::open(*checkpoint, Bert::linear_layers(*config));
  if (!dense) return fail(dense.error());
  Batch batch;
  for (const std::string& sentence : *sentences) {
    batch.add(tokenizer->encode(sentence, static_cast<std::size_t>(config->max_length)));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::vector<float>> original = bert->embed(batch, *dense);
  if (!original) return fail(original.error());
  const double seconds = seconds_of(begin);
  if (!options.record_amax.empty()) {
    nlohmann::json amax = nlohmann::json::object();
    for (const auto& [layer, value] : dense->input_amax()) amax[layer] = value;
    if (Status done = measure::write_file(options.record_amax, amax.dump(2) + "\n"); !done) return fail(done.error());
  }
  std::vector<Pass> passes;
  for (const std::string& path : options.quantized) {
    Result<Pass> pass = run_quantised(path, *config, batch, *dense, *original, options.threads);
    if (!pass) return fail(pass.error());
    passes.push_back(std::move(*pass));
  }
  if (options.json) {
    nlohmann::json out = {{"schema", "tetrad.embed/1.0"}, {"tetrad", TETRAD_VERSION},
                          {"model", options.model},       {"sentences", batch.sentences()},
                          {"tokens", batch.tokens()},     {"original_forward_time_ns", seconds * 1e9}};
    out["quantized"] = nlohmann::json::array();
    for (const Pass& pass : passes) out["quantized"].push_back(to_json(pass));
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("model      {}: {} layers, hidden {}, {} heads\n", options.model, config->layers, config->hidden,
               config->heads);
    fmt::print("input      {} sentences, {} tokens\n", batch.sentences(), batch.tokens());
    fmt::print("original   unquantised weights, sums in double, {:.0f} ms\n", seconds * 1e3);
    if (!options.record_amax.empty()) {
      fmt::print("recorded   largest input of {} linear layers: {}\n", dense->input_amax().size(), options.record_amax);
    }
    for (const Pass& pass : passes) show_layers(pass, batch.tokens());
    if (!passes.empty()) {
      show_cosines(*sentences, passes);
      show_similarity(*original, passes, sentences->size(), static_cast<std::size_t>(config->hidden));
    }
  }
  for (const Pass& pass : passes) {
    for (const LayerRecord& layer : pass.layers) {
      if (layer.report.judgement != Judgement::pass) {
        return fail(Error{ErrorKind::check,
                          "TE0656",
                          "a layer's result is over its bound",
                          layer.name,
                          "",
                          layer.report.text(),
                          {},
                          ""});
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace tetrad::embed

int main(int argc, char** argv) {
  tetrad::embed::Options options;
  CLI::App app("Sentence embeddings of a BERT encoder, its linear layers through Tetrad", "tetrad-embed");
  app.add_option("MODEL", options.model, "Folder of the original checkpoint, with config.json and vocab.txt")
      ->required();
  app.add_option("--sentences", options.sentences, "Text file, one sentence a line")->required()->type_name("FILE");
  app.add_option("--quantized", options.quantized, "A quantised checkpoint of the model; may be repeated")
      ->type_name("DIR");
  app.add_option("--record-amax", options.record_amax, "Write layer -> amax of its input as JSON")->type_name("FILE");
  app.add_option("--threads", options.threads, "Threads of the quantised layers (default all)")->type_name("N");
  app.add_flag("--json", options.json, "One JSON document");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return tetrad::embed::run(options);
}
