#include "tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "run/fixture.hpp"

namespace tetrad::embed {
namespace {

using Words = std::vector<std::string>;

TEST(Words, LowerCaseAccentsPunctuation) {
  EXPECT_EQ(Tokenizer::words("The CAT, isn't 4-bit!"),
            (Words{"the", "cat", ",", "isn", "'", "t", "4", "-", "bit", "!"}));
  EXPECT_EQ(Tokenizer::words("Café Zürich e\u0301 Ångström İx"), (Words{"cafe", "zurich", "e", "angstrom", "ix"}));
  EXPECT_EQ(Tokenizer::words("  \t\n "), Words{});
}

TEST(Words, CjkStandsAlone) { EXPECT_EQ(Tokenizer::words("a東京b"), (Words{"a", "東", "京", "b"})); }

TEST(Words, BadUtf8AndControlsAreDropped) {
  EXPECT_EQ(Tokenizer::words("a\xFF\xC3(b"), (Words{"a", "(", "b"}));
  EXPECT_EQ(Tokenizer::words(std::string_view("a\0b\x01", 4)), Words{"ab"});
  EXPECT_EQ(Tokenizer::words("\xE6\x9D"), Words{});              // cut in the middle
  EXPECT_EQ(Tokenizer::words("\xED\xA0\x80\xC0\xAF"), Words{});  // a surrogate, an overlong '/'
}

class WordPiece : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "vocab_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + ".txt";
    std::ofstream(path_) << "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\nable\n";
  }
  void TearDown() override { std::remove(path_.c_str()); }
  std::string path_;
};

TEST_F(WordPiece, LongestMatchFirst) {
  const auto tokenizer = Tokenizer::open(path_);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode("unaffable able", 16), (std::vector<std::int32_t>{2, 4, 5, 6, 7, 3}));
  EXPECT_EQ(tokenizer->encode("unaffabla", 16), (std::vector<std::int32_t>{2, 1, 3}));
  EXPECT_EQ(tokenizer->encode("able able able", 4), (std::vector<std::int32_t>{2, 7, 7, 3}));
}

TEST_F(WordPiece, VocabularyErrors) {
  const auto missing = Tokenizer::open(path_ + ".not-there");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::input);
  std::ofstream(path_) << "a\nb\n";
  const auto incomplete = Tokenizer::open(path_);
  ASSERT_FALSE(incomplete);
  EXPECT_EQ(incomplete.error().need, "[UNK]");
}

// Ids by the `tokenizers` package, odd texts included.
TEST(MiniLm, IdsEqualTheOracles) {
  if (!test::have_model()) GTEST_SKIP() << "needs the model: scripts/fetch_model.py";
  const auto tokenizer = Tokenizer::open(test::model_folder() + "/vocab.txt");
  ASSERT_TRUE(tokenizer);
  const nlohmann::json fixture = test::minilm_fixture();
  int compared = 0;
  for (const char* list : {"sentences", "tokens_only"}) {
    for (const auto& entry : fixture[list]) {
      const auto text = entry["text"].get<std::string>();
      EXPECT_EQ(tokenizer->encode(text, fixture["max_length"].get<std::size_t>()),
                entry["ids"].get<std::vector<std::int32_t>>())
          << text;
      ++compared;
    }
  }
  EXPECT_GE(compared, 25);
}

}  // namespace
}  // namespace tetrad::embed
