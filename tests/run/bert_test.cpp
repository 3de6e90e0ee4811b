#include "bert.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "dense.hpp"
#include "run/fixture.hpp"

namespace tetrad::embed {
namespace {

class MiniLm : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::have_model()) GTEST_SKIP() << "needs the model: scripts/fetch_model.py";
    auto config = read_bert_config(test::model_folder());
    ASSERT_TRUE(config) << config.error().what;
    config_ = *config;
    auto checkpoint = Checkpoint::open(test::model_folder());
    ASSERT_TRUE(checkpoint) << checkpoint.error().what;
    checkpoint_.emplace(std::move(*checkpoint));
  }
  BertConfig config_;
  std::optional<Checkpoint> checkpoint_;
};

TEST_F(MiniLm, EmbeddingsEqualTorchs) {
  EXPECT_EQ(config_.hidden, 384);
  EXPECT_EQ(config_.max_length, 256);
  const auto bert = Bert::open(*checkpoint_, config_);
  ASSERT_TRUE(bert) << bert.error().what;
  auto dense = DenseLinear::open(*checkpoint_, Bert::linear_layers(config_));
  ASSERT_TRUE(dense) << dense.error().what;
  const nlohmann::json fixture = test::minilm_fixture();
  Batch batch;
  for (const auto& entry : fixture["sentences"]) batch.add(entry["ids"].get<std::vector<std::int32_t>>());
  const auto embeddings = bert->embed(batch, *dense);
  ASSERT_TRUE(embeddings) << embeddings.error().what;
  std::int64_t full = 0;
  for (std::size_t s = 0; s < fixture["sentences"].size(); ++s) {
    const auto expected = fixture["sentences"][s]["embedding"].get<std::vector<float>>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR((*embeddings)[s * 384 + i], expected[i], 1e-5) << "sentence " << s << ", element " << i;
    }
    full += expected.size() == 384;
  }
  EXPECT_EQ(full, 3);
  EXPECT_EQ(dense->input_amax().size(), 36U);
  for (const auto& [layer, amax] : dense->input_amax()) EXPECT_GT(amax, 0.1F) << layer;
}

// A sentence has the same embedding alone and among others: nothing leaks over the boundary.
TEST_F(MiniLm, SentencesDoNotSeeEachOther) {
  const auto bert = Bert::open(*checkpoint_, config_);
  ASSERT_TRUE(bert);
  auto dense = DenseLinear::open(*checkpoint_, Bert::linear_layers(config_));
  ASSERT_TRUE(dense);
  const std::vector<std::int32_t> first{101, 1996, 4937, 102};
  const std::vector<std::int32_t> second{101, 2016, 3248, 1996, 2858, 102};
  Batch alone;
  alone.add(second);
  Batch both;
  both.add(first);
  both.add(second);
  const auto one = bert->embed(alone, *dense);
  const auto two = bert->embed(both, *dense);
  ASSERT_TRUE(one && two);
  EXPECT_TRUE(std::equal(one->begin(), one->end(), two->begin() + 384));
}

TEST_F(MiniLm, TokensOutsideTheVocabularyAreRefused) {
  const auto bert = Bert::open(*checkpoint_, config_);
  ASSERT_TRUE(bert);
  auto dense = DenseLinear::open(*checkpoint_, {});
  ASSERT_TRUE(dense);
  Batch batch;
  batch.add(std::vector<std::int32_t>{101, 30522});
  const auto result = bert->embed(batch, *dense);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().id, "TE0653");
}

}  // namespace
}  // namespace tetrad::embed
