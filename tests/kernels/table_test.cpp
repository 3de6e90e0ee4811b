#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tetrad/kernels.hpp"

namespace tetrad {
namespace {

TEST(KernelTable, NamesFollowTheGrammarAndAreUnique) {
  std::set<std::string> seen;
  for (const KernelDescriptor& row : kernel_table()) {
    const auto parsed = parse_kernel_name(row.candidate.name);
    ASSERT_TRUE(parsed.has_value()) << row.candidate.name;
    EXPECT_EQ(parsed->acc, name(row.candidate.acc)) << row.candidate.name;
    EXPECT_TRUE(seen.insert(row.candidate.name).second) << row.candidate.name;
    EXPECT_EQ(find_kernel(row.candidate.name), &row);
  }
  EXPECT_EQ(find_kernel("cpu_w4a16"), nullptr);
}

TEST(KernelTable, EveryBuiltRowHasAFileOfItsNameAndADigestOfItsOwn) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TETRAD_SOURCE_DIR "/src/kernels"))
    files.insert(entry.path().stem().string());
  std::set<std::string> digests;
  for (const KernelDescriptor& row : kernel_table()) {
    EXPECT_EQ(row.candidate.built, row.bind != nullptr) << row.candidate.name;
    EXPECT_EQ(row.candidate.digest, row.digest);
    if (row.bind == nullptr) {
      EXPECT_EQ(row.digest, "");
      continue;
    }
    EXPECT_EQ(files.count(row.candidate.name), 1U) << row.candidate.name;
    EXPECT_EQ(row.digest.size(), 64U) << row.candidate.name;
    EXPECT_EQ(row.digest.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(digests.insert(row.digest).second) << row.candidate.name;
  }
  EXPECT_GE(digests.size(), 4U);
}

TEST(KernelTable, ReferenceIsLastAndAlone) {
  const auto table = kernel_table();
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(table[i].candidate.reference, i + 1 == table.size());
  EXPECT_EQ(kernel_candidates().size(), table.size());
}

TEST(KernelName, Parts) {
  const auto parsed = parse_kernel_name("sm120_w4a4_omma_128x128x256");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->unit, "sm120");
  EXPECT_EQ(parsed->acc, "w4a4");
  EXPECT_EQ(parsed->technique, "omma");
  EXPECT_EQ(parsed->tile, "128x128x256");
  EXPECT_EQ(parse_kernel_name("cpu_w4a8_int8")->tile, "");
}

TEST(KernelName, Refused) {
  for (const char* text :
       {"", "cpu", "cpu_w4a16", "cpu_w4a16_", "tpu_w4a16_f32", "cpu_w8a8_f32", "sm_w4a4_x", "_w4a4_x"}) {
    const auto parsed = parse_kernel_name(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().id, "TE0604");
    EXPECT_EQ(parsed.error().have, text);
  }
}

}  // namespace
}  // namespace tetrad
