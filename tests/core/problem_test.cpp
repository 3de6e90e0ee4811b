#include "tetrad/problem.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tetrad {
namespace {

TEST(Problem, ReadsEveryWord) {
  const Result<ProblemSet> set =
      parse_problem("m64,1,16,1 n34816 k5120 a=f16 w=nvfp4 acc=w4a8 out=f32 bias groups=8 topk=2 rows=masked");
  ASSERT_TRUE(set) << set.error().what;
  EXPECT_EQ(set->m, (std::vector<std::int64_t>{1, 16, 64}));
  EXPECT_EQ(set->base.m, 1);
  EXPECT_EQ(set->base.n, 34816);
  EXPECT_EQ(set->base.k, 5120);
  EXPECT_EQ(set->base.a, DType::f16);
  EXPECT_EQ(set->base.out, DType::f32);
  EXPECT_EQ(set->base.acc, Acc::w4a8);
  EXPECT_TRUE(set->base.bias);
  EXPECT_EQ(set->base.groups, 8);
  EXPECT_EQ(set->base.top_k, 2);
  EXPECT_EQ(set->base.rows, RowLayout::masked);
}

TEST(Problem, DefaultsArePrinted) {
  const Result<ProblemSet> set = parse_problem("n=32 k=64");
  ASSERT_TRUE(set);
  EXPECT_EQ(to_text(*set), "m1 n32 k64 a=bf16 w=nvfp4 acc=w4a4 out=bf16");
}

TEST(Problem, CanonicalTextParsesBack) {
  const std::vector<std::string> texts{"m1,2,3 n16 k32 a=f32 w=nvfp4 acc=w4a16 out=f16",
                                       "m7 n1 k16 a=bf16 w=nvfp4 acc=w4a4 out=bf16 bias groups=4 topk=2 rows=masked"};
  for (const std::string& text : texts) {
    const Result<ProblemSet> once = parse_problem(text);
    ASSERT_TRUE(once) << text;
    EXPECT_EQ(to_text(*once), text);
    EXPECT_EQ(*parse_problem(to_text(*once)), *once);
    EXPECT_EQ(to_text(once->base), to_text(parse_problem(to_text(once->base))->base));
  }
}

struct BadText {
  const char* text;
  const char* id;
};

class ProblemRefuses : public testing::TestWithParam<BadText> {};

TEST_P(ProblemRefuses, WithIdNeedAndHave) {
  const Result<ProblemSet> set = parse_problem(GetParam().text);
  ASSERT_FALSE(set) << GetParam().text;
  EXPECT_EQ(set.error().id, GetParam().id) << set.error().what;
  EXPECT_EQ(set.error().kind, ErrorKind::usage);
  EXPECT_FALSE(set.error().need.empty());
  EXPECT_FALSE(set.error().have.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ProblemRefuses,
    testing::Values(BadText{"", "TE0101"}, BadText{"m1 n16", "TE0101"}, BadText{"m1 k16", "TE0101"},
                    BadText{"m1 n16 k16 foo=1", "TE0101"}, BadText{"m1 n16 k16 bf16", "TE0101"},
                    BadText{"m0 n16 k16", "TE0102"}, BadText{"m1 n0 k16", "TE0102"}, BadText{"m1 n-16 k16", "TE0101"},
                    BadText{"m1 n=-16 k16", "TE0102"}, BadText{"m1 n1099511627776 k16", "TE0102"},
                    BadText{"m1 n16 k1099511627776", "TE0102"}, BadText{"m1,,2 n16 k16", "TE0102"},
                    BadText{"m1, n16 k16", "TE0102"}, BadText{"m1x n16 k16", "TE0102"},
                    BadText{"m99999999999999999999 n16 k16", "TE0102"}, BadText{"m1 n16 k16 a=fp32", "TE0103"},
                    BadText{"m1 n16 k16 acc=w4", "TE0103"}, BadText{"m1 n16 k16 bias=1", "TE0103"},
                    BadText{"m1 n16 k16 n32", "TE0104"}, BadText{"m1 n16 k17", "TE0105"},
                    BadText{"m1 n16 k16 groups=2 topk=3", "TE0106"}, BadText{"m1 n16 k16 rows=masked", "TE0106"},
                    BadText{"m1 n2147483647 k2147483632 groups=2147483647", "TE0108"}));

TEST(Problem, LongTextsAndListsAreCapped) {
  EXPECT_EQ(parse_problem(std::string(5000, ' ') + "n16 k16").error().id, "TE0101");
  std::string many = "n16 k16 m1";
  for (int i = 2; i < 300; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(parse_problem(many).error().id, "TE0107");
}

TEST(Problem, SuggestsTheNearestWord) {
  EXPECT_NE(parse_problem("m1 n16 k16 group=2").error().hint.find("'groups'"), std::string::npos);
  EXPECT_NE(parse_problem("m1 n16 k16 a=bf61").error().hint.find("'bf16'"), std::string::npos);
}

TEST(Problem, Flops) { EXPECT_EQ(flops(parse_problem("m3 n32 k16")->base), 2.0 * 3 * 32 * 16); }

}  // namespace
}  // namespace tetrad
