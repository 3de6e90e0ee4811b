// quantize_checkpoint: what it writes reads back, fused layers share a scale, failures leave nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "checkpoint/linear.hpp"
#include "files.hpp"
#include "tetrad/checkpoint.hpp"

namespace tetrad {
namespace {

using namespace testing_files;

std::string random_values(std::string_view dtype, std::size_t count, float sigma, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  if (dtype == "F32") return bytes_of(values);
  std::vector<std::uint16_t> halves(count);
  for (std::size_t i = 0; i < count; ++i) halves[i] = dtype == "BF16" ? f32_to_bf16(values[i]) : f32_to_f16(values[i]);
  return bytes_of(halves);
}

Entry weight(std::string name, std::string_view dtype, std::int64_t n, std::int64_t k, float sigma, unsigned seed) {
  return {
      std::move(name), std::string(dtype), {n, k}, random_values(dtype, static_cast<std::size_t>(n * k), sigma, seed)};
}

const char* kConfig = R"({"model_type":"llama","vocab_size":40,"hidden_size":64})";

// Two shards; the fused q and k lie in different ones.
void write_model(const TempFolder& folder, std::string_view dtype = "BF16") {
  folder.write("model-1.safetensors",
               safetensors({weight("model.embed_tokens.weight", dtype, 40, 64, 1.0F, 1),
                            weight("model.layers.0.self_attn.q_proj.weight", dtype, 48, 64, 0.02F, 2),
                            weight("model.layers.0.mlp.gate.weight", dtype, 8, 64, 1.0F, 3),
                            {"model.norm.weight", "F32", {3}, std::string(12, 'n')}}));
  folder.write("model-2.safetensors",
               safetensors({weight("model.layers.0.self_attn.k_proj.weight", dtype, 16, 64, 0.08F, 4),
                            weight("model.layers.0.mlp.down_proj.weight", dtype, 64, 128, 0.05F, 5),
                            weight("model.layers.0.mlp.odd_proj.weight", dtype, 16, 24, 0.05F, 6),
                            weight("head.weight", dtype, 40, 64, 0.05F, 7)}));
  folder.write("model.safetensors.index.json", R"({"weight_map":{
    "model.embed_tokens.weight":"model-1.safetensors","model.layers.0.self_attn.q_proj.weight":"model-1.safetensors",
    "model.layers.0.mlp.gate.weight":"model-1.safetensors","model.norm.weight":"model-1.safetensors",
    "model.layers.0.self_attn.k_proj.weight":"model-2.safetensors","model.layers.0.mlp.down_proj.weight":"model-2.safetensors",
    "model.layers.0.mlp.odd_proj.weight":"model-2.safetensors","head.weight":"model-2.safetensors"}})");
  folder.write("config.json", kConfig);
  folder.write("tokenizer.json", "{\"t\":1}");
  folder.write("1_Pooling/config.json", "{\"p\":1}");
  folder.write("pytorch_model.bin", "not copied");
}

double relative_error(const QuantizedTensor& have, const StoredTensor& want) {
  std::vector<float> values(static_cast<std::size_t>(have.rows * have.k));
  dequantize(have, values.data());
  Result<ConstMatrix> dense = dense_matrix(want);
  EXPECT_TRUE(dense);
  double sum = 0.0;
  double error = 0.0;
  for (std::int64_t r = 0; r < have.rows; ++r) {
    for (std::int64_t k = 0; k < have.k; ++k) {
      const double x = element(*dense, r, k);
      const double y = values[static_cast<std::size_t>(r * have.k + k)];
      sum += x * x;
      error += (x - y) * (x - y);
    }
  }
  return error / sum;
}

class EveryKind : public ::testing::TestWithParam<std::tuple<Convention, QuantMethod, Scheme, const char*>> {};

TEST_P(EveryKind, WritesWhatReadsBack) {
  const auto& [convention, method, scheme, dtype] = GetParam();
  const TempFolder in;
  write_model(in, dtype);
  const TempFolder parent;
  const std::string out = parent / "out";
  QuantizeOptions options;
  options.convention = convention;
  options.method = method;
  options.scheme = scheme;
  options.input_amax = {{"model.layers.0.self_attn.q_proj", 3.0F},
                        {"model.layers.0.self_attn.k_proj", 5.0F},
                        {"model.layers.0.mlp.down_proj", 7.0F}};
  std::uint64_t done = 0;
  std::uint64_t total = 1;
  options.progress = [&](std::uint64_t d, std::uint64_t t, std::string_view) {
    EXPECT_GE(d, done);
    done = d;
    total = t;
  };
  Result<QuantizeReport> report = quantize_checkpoint(in.path(), out, options);
  ASSERT_TRUE(report) << report.error().what << " " << report.error().where << " " << report.error().have;
  EXPECT_EQ(done, total);
  EXPECT_EQ(parent.entries(), 1U);
  ASSERT_EQ(report->layers.size(), 3U);

  Result<Checkpoint> source = Checkpoint::open(in.path());
  Result<Checkpoint> made = Checkpoint::open(out);
  ASSERT_TRUE(made) << made.error().what;
  Result<std::vector<NvFp4Layer>> layers = made->nvfp4_layers();
  ASSERT_TRUE(layers) << layers.error().what;
  ASSERT_EQ(layers->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const NvFp4Layer& layer = (*layers)[i];
    EXPECT_EQ(layer.name, report->layers[i].name);
    EXPECT_EQ(layer.convention, convention);
    EXPECT_EQ(layer.scheme, scheme);
    const double error = relative_error(layer.weight, *source->find(layer.name + ".weight"));
    EXPECT_LT(error, 0.013);
    EXPECT_NEAR(error, report->layers[i].relative_mse, 1e-6 + 1e-3 * error);
  }
  EXPECT_EQ((*layers)[0].name, "model.layers.0.mlp.down_proj");
  EXPECT_EQ((*layers)[1].weight.global.value, (*layers)[2].weight.global.value);  // k_proj and q_proj
  EXPECT_NE((*layers)[0].weight.global.value, (*layers)[1].weight.global.value);
  if (scheme == Scheme::w4a4) {
    EXPECT_NEAR((*layers)[0].weight.input_global->decode(), 7.0 / 2688.0, 1e-9);
    EXPECT_NEAR((*layers)[1].weight.input_global->decode(), 5.0 / 2688.0, 1e-9);
    EXPECT_NEAR((*layers)[2].weight.input_global->decode(), 5.0 / 2688.0, 1e-9);
  }

  // What is not quantised is there byte for byte.
  for (const char* name : {"model.embed_tokens.weight", "model.layers.0.mlp.gate.weight", "model.norm.weight",
                           "model.layers.0.mlp.odd_proj.weight", "head.weight"}) {
    const StoredTensor* a = source->find(name);
    const StoredTensor* b = made->find(name);
    ASSERT_NE(b, nullptr) << name;
    ASSERT_EQ(a->bytes, b->bytes);
    EXPECT_EQ(a->dtype, b->dtype);
    EXPECT_EQ(0, std::memcmp(a->data, b->data, a->bytes)) << name;
  }
  EXPECT_EQ(report->ignored, (std::vector<std::string>{"head: embedding or output head: 40 rows = vocab_size",
                                                       "model.embed_tokens: embedding by its name",
                                                       "model.layers.0.mlp.gate: router by its name",
                                                       "model.layers.0.mlp.odd_proj: k = 24 is not a multiple of 16"}));
  EXPECT_EQ(read_file(out + "/tokenizer.json"), "{\"t\":1}");
  EXPECT_EQ(read_file(out + "/1_Pooling/config.json"), "{\"p\":1}");
  EXPECT_FALSE(fs::exists(out + "/pytorch_model.bin"));

  const nlohmann::json config = nlohmann::json::parse(read_file(out + "/config.json"));
  EXPECT_EQ(config["hidden_size"], 64);
  const nlohmann::json& quant = config["quantization_config"];
  EXPECT_EQ(quant["quant_method"], convention == Convention::modelopt ? "modelopt" : "compressed-tensors");
  const nlohmann::json& group = quant["config_groups"]["group_0"];
  EXPECT_EQ(group["weights"]["num_bits"], 4);
  EXPECT_EQ(group["weights"]["group_size"], 16);
  const bool activations = group.contains("input_activations") && !group["input_activations"].is_null();
  EXPECT_EQ(activations, scheme == Scheme::w4a4);
  std::set<std::string> ignored = quant["ignore"];
  EXPECT_TRUE(ignored.contains("head"));
  EXPECT_TRUE(ignored.contains("lm_head"));
  EXPECT_TRUE(ignored.contains("model.layers.0.mlp.odd_proj"));
  if (convention == Convention::modelopt) {
    const nlohmann::json own = nlohmann::json::parse(read_file(out + "/hf_quant_config.json"));
    EXPECT_EQ(own["quantization"]["quant_algo"], scheme == Scheme::w4a4 ? "NVFP4" : "W4A16_NVFP4");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryKind,
    ::testing::Combine(::testing::Values(Convention::compressed_tensors, Convention::modelopt),
                       ::testing::Values(QuantMethod::rtn, QuantMethod::four_over_six, QuantMethod::search),
                       ::testing::Values(Scheme::w4a16, Scheme::w4a4), ::testing::Values("BF16", "F16", "F32")));

// Nothing but the input is there afterwards, and the error has this id.
void expect_refused(const TempFolder& parent, const std::string& in, const QuantizeOptions& options,
                    std::string_view id) {
  const std::size_t before = parent.entries();
  Result<QuantizeReport> report = quantize_checkpoint(in, parent / "out", options);
  ASSERT_FALSE(report) << id;
  EXPECT_EQ(report.error().id, id) << report.error().what;
  EXPECT_EQ(parent.entries(), before);
}

TEST(QuantizeCheckpoint, SingleFile) {
  const TempFolder parent;
  const std::string in = parent.write("w.safetensors", safetensors({weight("a.fc.weight", "F32", 4, 32, 1.0F, 1)}));
  ASSERT_TRUE(quantize_checkpoint(in, parent / "out", {}));
  Result<Checkpoint> made = Checkpoint::open(parent / "out");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->nvfp4_layers()->size(), 1U);
  // What is quantised is not quantised again.
  const TempFolder other;
  expect_refused(other, parent / "out", {}, "TE0246");
}

TEST(QuantizeCheckpoint, ExistingOutputIsRefusedBeforeAnyWork) {
  const TempFolder parent;
  parent.write("out/x", "keep");
  expect_refused(parent, "/does/not/exist", {}, "TE0241");
  EXPECT_EQ(read_file(parent / "out/x"), "keep");
}

TEST(QuantizeCheckpoint, W4a4NamesTheMissingLayers) {
  const TempFolder in;
  write_model(in);
  const TempFolder parent;
  QuantizeOptions options;
  options.scheme = Scheme::w4a4;
  options.input_amax = {{"model.layers.0.self_attn.q_proj", 3.0F}};
  expect_refused(parent, in.path(), options, "TE0243");
  const Error error = quantize_checkpoint(in.path(), parent / "out", options).error();
  EXPECT_NE(error.have.find("model.layers.0.self_attn.k_proj"), std::string::npos) << error.have;
  EXPECT_NE(error.have.find("model.layers.0.mlp.down_proj"), std::string::npos) << error.have;
  EXPECT_EQ(error.have.find("q_proj"), std::string::npos) << error.have;
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY, 1e-40F}) {
    options.input_amax = {{"model.layers.0.self_attn.q_proj", bad},
                          {"model.layers.0.self_attn.k_proj", 1.0F},
                          {"model.layers.0.mlp.down_proj", 1.0F}};
    expect_refused(parent, in.path(), options, "TE0244");
  }
}

TEST(QuantizeCheckpoint, NanIsRefusedAtItsPlaceAndLeavesNothing) {
  const TempFolder in;
  Entry entry = weight("a.fc.weight", "F32", 8, 32, 1.0F, 1);
  const float bad = -INFINITY;
  std::memcpy(entry.data.data() + (5 * 32 + 17) * 4, &bad, 4);
  in.write("model.safetensors", safetensors({entry}));
  const TempFolder parent;
  expect_refused(parent, in.path(), {}, "TE0402");
  const Error error = quantize_checkpoint(in.path(), parent / "out", {}).error();
  EXPECT_NE(error.where.find("'a.fc.weight', row 5, column 17"), std::string::npos) << error.where;
}

TEST(QuantizeCheckpoint, CancelLeavesNothing) {
  const TempFolder in;
  write_model(in);
  const TempFolder parent;
  for (int stop = 1; stop < 20; ++stop) {
    QuantizeOptions options;
    int asked = 0;
    options.cancelled = [&] { return ++asked == stop; };
    const Result<QuantizeReport> report = quantize_checkpoint(in.path(), parent / "out", options);
    if (report) {
      EXPECT_GT(stop, 8);
      return;
    }
    EXPECT_EQ(report.error().id, "TE0247");
    EXPECT_EQ(parent.entries(), 0U) << stop;
  }
}

TEST(QuantizeCheckpoint, FolderOfAKilledWriterIsSwept) {
  const TempFolder in;
  write_model(in);
  const TempFolder parent;
  parent.write(".out.tetrad-abc123/model.safetensors", "half");
  ASSERT_TRUE(quantize_checkpoint(in.path(), parent / "out", {}));
  EXPECT_EQ(parent.entries(), 1U);
}

TEST(QuantizeCheckpoint, IgnorePatterns) {
  const TempFolder in;
  write_model(in);
  const TempFolder parent;
  QuantizeOptions options;
  options.ignore = {"*.q_proj", "re:model\\.layers\\.0\\.mlp\\.down", "re:layers", "nothing.*"};
  Result<QuantizeReport> report = quantize_checkpoint(in.path(), parent / "out", options);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->layers.size(), 1U);
  EXPECT_EQ(report->layers[0].name, "model.layers.0.self_attn.k_proj");
  EXPECT_EQ(report->unmatched_ignore, (std::vector<std::string>{"re:layers", "nothing.*"}));  // re: starts at the front
  const TempFolder other;
  options.ignore = {"*"};
  expect_refused(other, in.path(), options, "TE0245");
  options.ignore = {"re:("};
  expect_refused(other, in.path(), options, "TE0248");
}

TEST(QuantizeCheckpoint, FusedExpertsAreRefusedByNameUnlessIgnored) {
  const TempFolder folder;
  Entry experts = weight("model.layers.0.mlp.experts.gate_up_proj", "BF16", 4 * 32, 64, 0.05F, 1);
  experts.shape = {4, 32, 64};
  const std::string in =
      folder.write("in.safetensors", safetensors({experts, weight("a.q_proj.weight", "BF16", 16, 64, 0.05F, 2)}));
  QuantizeOptions options;
  const auto refused = quantize_checkpoint(in, folder / "out", options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "TE0253");
  EXPECT_NE(refused.error().have.find("model.layers.0.mlp.experts.gate_up_proj"), std::string::npos);
  EXPECT_EQ(folder.entries(), 1U);
  options.ignore = {"*experts*"};
  const auto done = quantize_checkpoint(in, folder / "out", options);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(done->layers.size(), 1U);
  const auto copied = Checkpoint::open(folder / "out");
  ASSERT_TRUE(copied);
  ASSERT_NE(copied->find("model.layers.0.mlp.experts.gate_up_proj"), nullptr);
  EXPECT_EQ(copied->find("model.layers.0.mlp.experts.gate_up_proj")->shape, (std::vector<std::int64_t>{4, 32, 64}));
}

TEST(QuantizeCheckpoint, ZeroAndTinyWeights) {
  const TempFolder parent;
  std::vector<float> tiny(64, 0.0F);
  tiny[3] = 1e-44F;
  const std::string in =
      parent.write("w.safetensors", safetensors({{"zero.weight", "F32", {2, 32}, std::string(256, '\0')},
                                                 {"tiny.weight", "F32", {2, 32}, bytes_of(tiny)}}));
  for (const Convention convention : {Convention::compressed_tensors, Convention::modelopt}) {
    QuantizeOptions options;
    options.convention = convention;
    const std::string out = parent / name(convention);
    ASSERT_TRUE(quantize_checkpoint(in, out, options));
    Result<std::vector<NvFp4Layer>> layers = Checkpoint::open(out)->nvfp4_layers();
    ASSERT_TRUE(layers) << layers.error().what;
    EXPECT_EQ(layers->size(), 2U);
  }
}

TEST(Linear, NamesAndFusedLayers) {
  using namespace checkpoint;
  const auto reason = [](std::string name, std::vector<std::int64_t> shape, ModelFacts facts = {}) {
    return not_linear({std::move(name), "BF16", std::move(shape), 0, 0}, facts);
  };
  EXPECT_FALSE(reason("encoder.layer.0.attention.self.query.weight", {384, 384}));
  EXPECT_FALSE(reason("pooler.dense.weight", {384, 384}));
  EXPECT_FALSE(reason("classifier.weight", {2, 384}));
  EXPECT_FALSE(reason("model.layers.0.mlp.experts.7.gate_proj.weight", {64, 64}));
  for (const char* name :
       {"lm_head.weight", "embeddings.word_embeddings.weight", "model.embed_tokens.weight", "shared.weight",
        "transformer.wte.weight", "output.weight", "x.block_sparse_moe.gate.weight", "x.post_norm.weight"}) {
    EXPECT_TRUE(reason(name, {64, 64})) << name;
  }
  EXPECT_TRUE(reason("a.weight", {64, 40}));
  EXPECT_TRUE(reason("a.weight", {0, 64}));
  EXPECT_TRUE(reason("h.0.mlp.c_fc.weight", {64, 64}, {0, "gpt2"}));
  EXPECT_TRUE(reason("odd.weight", {1000, 64}, {1000, ""}));
  EXPECT_EQ(reason("a.bias", {64}), "");
  EXPECT_EQ(fused_key("l.0.q_proj"), fused_key("l.0.v_proj"));
  EXPECT_NE(fused_key("l.0.q_proj"), fused_key("l.1.q_proj"));
  EXPECT_NE(fused_key("l.0.q_proj"), fused_key("l.0.o_proj"));
  EXPECT_EQ(fused_key("e.3.w1"), fused_key("e.3.w3"));
  EXPECT_NE(fused_key("e.3.w1"), fused_key("e.3.w2"));
  EXPECT_EQ(fused_key("a.self.query"), fused_key("a.self.key"));
}

}  // namespace
}  // namespace tetrad
