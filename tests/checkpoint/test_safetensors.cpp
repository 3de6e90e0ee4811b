// Every rule of the safetensors reader refuses with its own id, and says where, what it needs and what is there.
#include <gtest/gtest.h>

#include "checkpoint/safetensors.hpp"
#include "files.hpp"
#include "tetrad/checkpoint.hpp"

namespace tetrad {
namespace {

using namespace testing_files;

// The error that opening a file with these bytes gives.
Error open_error(const std::string& bytes) {
  const TempFolder folder;
  Result<Checkpoint> opened = Checkpoint::open(folder.write("bad.safetensors", bytes));
  if (opened) return Error{};
  EXPECT_EQ(opened.error().kind, ErrorKind::input);
  EXPECT_NE(opened.error().where.find("bad.safetensors"), std::string::npos) << opened.error().where;
  EXPECT_FALSE(opened.error().need.empty()) << opened.error().id;
  EXPECT_TRUE(!opened.error().have.empty() || opened.error().id == "TE0209" || opened.error().id == "TE0207");
  return opened.error();
}

Error header_error(std::string_view header, std::string_view data = "") {
  return open_error(safetensors(header, data));
}

const std::string kGood =
    R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]}})";
const std::string kGoodData = "0123456789ab";

TEST(Safetensors, GoodFile) {
  const TempFolder folder;
  Result<Checkpoint> opened = Checkpoint::open(folder.write("x.safetensors", safetensors(kGood, kGoodData)));
  ASSERT_TRUE(opened) << opened.error().what;
  ASSERT_EQ(opened->tensors().size(), 2U);
  const StoredTensor* b = opened->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, "F32");
  EXPECT_EQ(b->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b->data), b->bytes), "456789ab");
  std::uint8_t part[3];
  ASSERT_TRUE(opened->read(*b, 5, part));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(part), 3), "9ab");
  EXPECT_EQ(opened->read(*b, 6, part).error().id, "TE0236");
  EXPECT_EQ(opened->find("c"), nullptr);
}

TEST(Safetensors, LeadingBlanksMetadataAndEmptyTensorsAreAllowed) {
  const TempFolder folder;
  const std::string header =
      R"(  {"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}   )";
  EXPECT_TRUE(Checkpoint::open(folder.write("x.safetensors", safetensors(header, ""))));
  EXPECT_TRUE(Checkpoint::open(folder.write("y.safetensors", safetensors("{}", ""))));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string good = safetensors(kGood, kGoodData);
  const TempFolder folder;
  for (std::size_t size = 0; size < good.size(); ++size) {
    Result<Checkpoint> opened = Checkpoint::open(folder.write("cut.safetensors", good.substr(0, size)));
    ASSERT_FALSE(opened) << size << " of " << good.size() << " bytes";
    EXPECT_NE(opened.error().where.find("cut.safetensors"), std::string::npos);
  }
}

TEST(Safetensors, NotThere) {
  const TempFolder folder;
  EXPECT_EQ(Checkpoint::open(folder / "none.safetensors").error().id, "TE0201");
  EXPECT_EQ(Checkpoint::open("/dev/null").error().id, "TE0201");
}

TEST(Safetensors, HeaderLength) {
  EXPECT_EQ(open_error("").id, "TE0202");
  EXPECT_EQ(open_error("1234567").id, "TE0202");
  const std::string rest(100, ' ');
  EXPECT_EQ(open_error(length_word(0) + rest).id, "TE0203");
  EXPECT_EQ(open_error(length_word(1) + rest).id, "TE0203");
  EXPECT_EQ(open_error(length_word(7) + rest).id, "TE0207");  // seven blanks
  EXPECT_EQ(open_error(length_word(checkpoint::kHeaderCap) + rest).id, "TE0205");
  EXPECT_EQ(open_error(length_word(checkpoint::kHeaderCap + 1) + rest).id, "TE0204");
  EXPECT_EQ(open_error(length_word(1ULL << 63) + rest).id, "TE0204");
  EXPECT_EQ(open_error(length_word(~0ULL) + rest).id, "TE0204");
  EXPECT_EQ(open_error(length_word(108 + 1) + rest).id, "TE0205");  // file size + 1
  EXPECT_EQ(open_error(length_word(101) + rest).id, "TE0205");
}

TEST(Safetensors, Text) {
  const Error utf8 = header_error("{\"\xff\":1}");
  EXPECT_EQ(utf8.id, "TE0206");
  EXPECT_NE(utf8.where.find("byte 10"), std::string::npos) << utf8.where;
  EXPECT_EQ(header_error("{\"\xc0\xaf\":1}").id, "TE0206");      // overlong
  EXPECT_EQ(header_error("{\"\xed\xa0\x80\":1}").id, "TE0206");  // surrogate
  EXPECT_EQ(header_error("{\"\xe2\x82").id, "TE0206");           // cut
  EXPECT_EQ(header_error("{\"a\":}").id, "TE0207");
  EXPECT_EQ(header_error("{} x").id, "TE0207");
  EXPECT_EQ(header_error(std::string("{}\0", 3)).id, "TE0207");
  EXPECT_NE(header_error("{\"a\" 1}").where.find("byte"), std::string::npos);
}

TEST(Safetensors, Depth) {
  const std::string deep(100000, '[');
  EXPECT_EQ(header_error(R"({"a":{"dtype":"U8","shape":[)" + deep).id, "TE0208");
  EXPECT_EQ(header_error(R"({"__metadata__":{"a":)" + deep).id, "TE0208");
  EXPECT_EQ(header_error(R"({"a":{"dtype":{"b":{)").id, "TE0208");
  EXPECT_EQ(header_error(deep).id, "TE0210");
  EXPECT_EQ(header_error(R"({"a":)" + deep).id, "TE0210");
}

TEST(Safetensors, DuplicateKeys) {
  EXPECT_EQ(header_error(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                         R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})")
                .id,
            "TE0209");
  EXPECT_EQ(header_error(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})").id, "TE0209");
  EXPECT_EQ(header_error(R"({"__metadata__":{},"__metadata__":{}})").id, "TE0209");
  EXPECT_EQ(header_error(R"({"__metadata__":{"x":"1","x":"2"}})").id, "TE0209");
}

TEST(Safetensors, Form) {
  for (const char* header :
       {R"([])", R"("a")", R"(null)", R"( 7)", R"({"a":1})", R"({"a":{}})", R"({"a":{"dtype":"U8","shape":[0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})",
        R"({"a":{"dtype":"U8","shape":0,"data_offsets":[0,0]}})",
        R"({"a":{"dtype":8,"shape":[0],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":["0"],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1}})", R"({"__metadata__":{"a":1}})",
        R"({"__metadata__":[]})"}) {
    EXPECT_EQ(header_error(header).id, "TE0210") << header;
  }
}

TEST(Safetensors, Dtype) {
  for (const char* word : {"BF17", "f32", "", "F4_E2M1"}) {
    EXPECT_EQ(header_error(std::string(R"({"a":{"dtype":")") + word + R"(","shape":[0],"data_offsets":[0,0]}})").id,
              "TE0211");
  }
  EXPECT_EQ(checkpoint::dtype_bits("F8_E4M3"), 8);
  EXPECT_EQ(checkpoint::dtype_bits("F4"), 4);
}

std::string shaped(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return std::string(R"({"a":{"dtype":")") + std::string(dtype) + R"(","shape":[)" + std::string(shape) +
         R"(],"data_offsets":[)" + std::string(offsets) + "]}}";
}

TEST(Safetensors, Shape) {
  EXPECT_EQ(header_error(shaped("U8", "-1", "0,0")).id, "TE0212");
  EXPECT_EQ(header_error(shaped("U8", "1.5", "0,0")).id, "TE0212");
  EXPECT_EQ(header_error(shaped("U8", "9223372036854775808", "0,0")).id, "TE0212");
  EXPECT_EQ(header_error(shaped("U8", "99999999999999999999999", "0,0")).id, "TE0212");
  EXPECT_EQ(header_error(shaped("U8", "0", "0,18446744073709551615")).id, "TE0212");
  EXPECT_EQ(header_error(shaped("U8", "1,1,1,1,1,1,1,1,1", "0,1"), "x").id, "TE0212");
  // Products that wrap to 0 or to something small in 64 bits.
  EXPECT_EQ(header_error(shaped("F32", "4294967296,4294967296", "0,0")).id, "TE0213");
  EXPECT_EQ(header_error(shaped("U8", "9223372036854775807,2", "0,0")).id, "TE0213");
  EXPECT_EQ(header_error(shaped("F64", "2305843009213693953", "0,8"), "12345678").id, "TE0213");
  EXPECT_EQ(header_error(shaped("U8", "4294967296,4294967296,4294967296,0", "0,0")).id, "TE0213");
}

TEST(Safetensors, SizesDisagree) {
  EXPECT_EQ(header_error(shaped("F32", "2", "0,4"), "1234").id, "TE0214");
  EXPECT_EQ(header_error(shaped("F32", "", "0,8"), "12345678").id, "TE0214");
  EXPECT_EQ(header_error(shaped("F4", "3", "0,1"), "1").id, "TE0214");  // odd count of half bytes
}

std::string two(std::string_view a, std::string_view b) {
  return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)") + std::string(a) +
         R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + std::string(b) + "]}}";
}

TEST(Safetensors, Offsets) {
  const std::string eight = "12345678";
  EXPECT_EQ(header_error(two("0,4", "8,4"), eight).id, "TE0215");
  EXPECT_EQ(header_error(two("0,4", "5,9"), eight).id, "TE0216");
  EXPECT_EQ(header_error(two("0,4", "9223372036854775803,9223372036854775807"), eight).id, "TE0216");
  EXPECT_EQ(header_error(two("0,4", "5,9"), eight + "9").id, "TE0217");
  EXPECT_EQ(header_error(two("1,5", "5,9"), eight + "9").id, "TE0217");  // a gap before the first one
  const Error overlap = header_error(two("0,4", "3,7"), eight);
  EXPECT_EQ(overlap.id, "TE0218");
  EXPECT_NE(overlap.where.find("'a' and 'b'"), std::string::npos) << overlap.where;
  EXPECT_EQ(header_error(two("0,4", "0,4"), "1234").id, "TE0218");
  EXPECT_EQ(header_error(two("0,4", "4,8"), eight + "9").id, "TE0219");
  EXPECT_EQ(header_error("{}", "x").id, "TE0219");
}

// One changed digit of a good file's offsets or shapes never passes unless the file means the same.
TEST(Safetensors, MutatedDigitsAreRefused) {
  const TempFolder folder;
  int refused = 0;
  for (std::size_t i = 0; i < kGood.size(); ++i) {
    if (kGood[i] < '0' || kGood[i] > '9') continue;
    if (i > 0 && (kGood[i - 1] == 'U' || kGood[i - 1] == 'F' || kGood[i - 2] == 'F')) continue;  // dtype words
    for (char digit = '0'; digit <= '9'; ++digit) {
      if (digit == kGood[i]) continue;
      std::string bad = kGood;
      bad[i] = digit;
      EXPECT_FALSE(Checkpoint::open(folder.write("m.safetensors", safetensors(bad, kGoodData)))) << bad;
      ++refused;
    }
  }
  EXPECT_GT(refused, 70);
}

TEST(Safetensors, WrittenHeaderReadsBack) {
  checkpoint::Header header;
  header.metadata["format"] = "p\"t";
  header.tensors.push_back({"a \"quoted\" name", "BF16", {3, 16}, 0, 96});
  header.tensors.push_back({"scalar", "F32", {}, 96, 100});
  const std::string bytes = checkpoint::header_bytes(header);
  EXPECT_EQ(bytes.size() % 8, 0U);
  Result<checkpoint::Header> read = checkpoint::parse_header(std::string_view(bytes).substr(8), 100, "x");
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->metadata, header.metadata);
  ASSERT_EQ(read->tensors.size(), 2U);
  EXPECT_EQ(read->tensors[0].name, header.tensors[0].name);
  EXPECT_EQ(read->tensors[1].shape, header.tensors[1].shape);
}

}  // namespace
}  // namespace tetrad
