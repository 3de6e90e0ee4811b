// Folders, shards and NVFP4 layers: what is found, and what is refused by name and position.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "files.hpp"
#include "tetrad/checkpoint.hpp"
#include "tetrad/nvfp4.hpp"

namespace tetrad {
namespace {

using namespace testing_files;

const std::string kData = TETRAD_TEST_DATA "/checkpoint/";

Entry u8(std::string name) { return {std::move(name), "U8", {1}, "x"}; }

std::string index_of(std::string_view tensor, std::string_view file) {
  return R"({"metadata":{},"weight_map":{")" + std::string(tensor) + R"(":")" + std::string(file) + R"("}})";
}

TEST(CheckpointFolder, SingleFileAndShards) {
  const TempFolder folder;
  folder.write("model.safetensors", safetensors({u8("a")}));
  ASSERT_TRUE(Checkpoint::open(folder.path()));

  const TempFolder sharded;
  sharded.write("s1.safetensors", safetensors({u8("b")}));
  sharded.write("s2.safetensors", safetensors({u8("a")}));
  sharded.write("model.safetensors.index.json", R"({"weight_map":{"a":"s2.safetensors","b":"s1.safetensors"}})");
  Result<Checkpoint> opened = Checkpoint::open(sharded.path());
  ASSERT_TRUE(opened) << opened.error().what;
  ASSERT_EQ(opened->tensors().size(), 2U);
  EXPECT_EQ(opened->tensors()[0].name, "a");
  EXPECT_EQ(opened->tensors()[0].file, "s2.safetensors");
}

TEST(CheckpointFolder, NoneOrSeveralFiles) {
  const TempFolder folder;
  EXPECT_EQ(Checkpoint::open(folder.path()).error().id, "TE0224");
  folder.write("x.safetensors", safetensors({u8("a")}));
  EXPECT_TRUE(Checkpoint::open(folder.path()));
  folder.write("y.safetensors", safetensors({u8("a")}));
  EXPECT_EQ(Checkpoint::open(folder.path()).error().id, "TE0224");
}

TEST(CheckpointFolder, BadIndex) {
  const auto open = [](std::string_view index) {
    const TempFolder folder;
    folder.write("s.safetensors", safetensors({u8("a"), u8("b")}));
    folder.write("model.safetensors.index.json", index);
    Result<Checkpoint> opened = Checkpoint::open(folder.path());
    return opened ? std::string() : opened.error().id;
  };
  EXPECT_EQ(open(index_of("a", "s.safetensors")), "");
  EXPECT_EQ(open(index_of("a", "missing.safetensors")), "TE0222");
  EXPECT_EQ(open(index_of("c", "s.safetensors")), "TE0223");
  for (const char* name :
       {"../s.safetensors", "sub/s.safetensors", "/etc/passwd", "..", ".", "", "a\\\\b", "s\\u0000x"}) {
    EXPECT_EQ(open(index_of("a", name)), "TE0221") << name;
  }
  EXPECT_EQ(open("{}"), "TE0220");
  EXPECT_EQ(open(R"({"weight_map":[]})"), "TE0220");
  EXPECT_EQ(open(R"({"weight_map":{}})"), "TE0220");
  EXPECT_EQ(open(R"({"weight_map":{"a":1}})"), "TE0220");
  EXPECT_EQ(open("[]"), "TE0207");
  EXPECT_EQ(open("{"), "TE0207");
  EXPECT_EQ(open("{\"\xff\":1}"), "TE0206");
  EXPECT_EQ(open(R"({"x":)" + std::string(100000, '[') + std::string(100000, ']') + "}"), "TE0208");
  EXPECT_EQ(open(R"({"weight_map":{"a":"s.safetensors","a":"s.safetensors"}})"), "TE0209");
}

TEST(CheckpointFolder, ATensorInTwoShards) {
  const TempFolder folder;
  folder.write("s1.safetensors", safetensors({u8("a"), u8("b")}));
  folder.write("s2.safetensors", safetensors({u8("a")}));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"s2.safetensors","b":"s1.safetensors"}})");
  EXPECT_EQ(Checkpoint::open(folder.path()).error().id, "TE0223");
}

TEST(CheckpointFolder, LinksStayInside) {
  const TempFolder outside;
  const std::string target = outside.write("secret.safetensors", safetensors({u8("a")}));
  const TempFolder folder;
  fs::create_symlink(target, folder / "model.safetensors");
  EXPECT_EQ(Checkpoint::open(folder.path()).error().id, "TE0221");

  const TempFolder inside;
  inside.write("real.bin", safetensors({u8("a")}));
  fs::create_symlink("real.bin", inside / "model.safetensors");
  EXPECT_TRUE(Checkpoint::open(inside.path()));

  // The hub's cache: snapshots/<revision>/file -> ../../blobs/<digest>.
  const TempFolder hub;
  hub.write("blobs/0123", safetensors({u8("a")}));
  fs::create_directories(hub / "snapshots/main");
  fs::create_symlink("../../blobs/0123", hub / "snapshots/main/model.safetensors");
  EXPECT_TRUE(Checkpoint::open(hub / "snapshots/main"));
  fs::remove(fs::path(hub / "snapshots/main/model.safetensors"));
  fs::create_symlink(target, hub / "snapshots/main/model.safetensors");
  EXPECT_EQ(Checkpoint::open(hub / "snapshots/main").error().id, "TE0221");
}

TEST(CheckpointFolder, BadConfig) {
  const TempFolder folder;
  folder.write("model.safetensors", safetensors({u8("a")}));
  folder.write("config.json", "{\"a\":");
  EXPECT_EQ(Checkpoint::open(folder.path()).error().id, "TE0207");
  folder.write("config.json", R"({"quantization_config":{"quant_method":"modelopt"}})");
  Result<Checkpoint> opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened);
  EXPECT_NE(opened->quantization_config().find("modelopt"), std::string::npos);
}

TEST(Checkpoint, ShrunkenFileIsAReadError) {
  const TempFolder folder;
  const std::string path =
      folder.write("x.safetensors", safetensors({{"a", "U8", {100000}, std::string(100000, 'x')}}));
  Result<Checkpoint> opened = Checkpoint::open(path);
  ASSERT_TRUE(opened);
  ASSERT_TRUE(opened->intact());
  fs::resize_file(path, 4096);
  EXPECT_EQ(opened->intact().error().id, "TE0225");
  std::vector<std::uint8_t> bytes(100000);
  const Status read = opened->read(opened->tensors()[0], 0, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().id, "TE0225");
  EXPECT_EQ(opened->nvfp4_layers().error().id, "TE0225");
}

// Files of the safetensors package; the values are computed with ml_dtypes (scripts/oracles/checkpoint_fixtures.py).
TEST(Checkpoint, FixturesOfBothConventions) {
  Result<Checkpoint> expected = Checkpoint::open(kData + "expected.safetensors");
  ASSERT_TRUE(expected) << expected.error().what;
  int compared = 0;
  for (const auto& [file, prefix] : {std::pair{"compressed_tensors", "ct."}, std::pair{"modelopt", "mo."}}) {
    Result<Checkpoint> opened = Checkpoint::open(kData + file + ".safetensors");
    ASSERT_TRUE(opened) << opened.error().what;
    Result<std::vector<NvFp4Layer>> layers = opened->nvfp4_layers();
    ASSERT_TRUE(layers) << layers.error().what;
    ASSERT_EQ(layers->size(), 2U);
    for (const NvFp4Layer& layer : *layers) {
      const StoredTensor* want = expected->find(prefix + layer.name);
      ASSERT_NE(want, nullptr) << layer.name;
      EXPECT_EQ(want->shape, (std::vector<std::int64_t>{layer.weight.rows, layer.weight.k}));
      std::vector<float> have(static_cast<std::size_t>(layer.weight.rows * layer.weight.k));
      dequantize(layer.weight, have.data());
      ASSERT_EQ(have.size() * sizeof(float), want->bytes);
      EXPECT_EQ(0, std::memcmp(have.data(), want->data, want->bytes)) << layer.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 4);
}

TEST(Checkpoint, SchemeFollowsTheInputScale) {
  Result<Checkpoint> opened = Checkpoint::open(kData + "compressed_tensors.safetensors");
  ASSERT_TRUE(opened);
  Result<std::vector<NvFp4Layer>> layers = opened->nvfp4_layers();
  ASSERT_TRUE(layers);
  EXPECT_EQ((*layers)[0].name, "model.layers.0.mlp.up_proj");
  EXPECT_EQ((*layers)[0].scheme, Scheme::w4a4);
  ASSERT_TRUE((*layers)[0].weight.input_global);
  EXPECT_EQ((*layers)[0].weight.input_global->kind, GlobalScale::Kind::divisor);
  EXPECT_EQ((*layers)[1].scheme, Scheme::w4a16);
  EXPECT_EQ((*layers)[1].convention, Convention::compressed_tensors);
}

// A layer of each convention, [2, 32], and changes to it.
std::vector<Entry> ct_layer() {
  return {{"m.weight_packed", "U8", {2, 16}, std::string(32, 'c')},
          {"m.weight_scale", "F8_E4M3", {2, 2}, "8888"},
          {"m.weight_global_scale", "F32", {1}, f32(2.0F)}};
}
std::vector<Entry> mo_layer() {
  return {{"m.weight", "U8", {2, 16}, std::string(32, 'c')},
          {"m.weight_scale", "F8_E4M3", {2, 2}, "8888"},
          {"m.weight_scale_2", "F32", {}, f32(0.5F)}};
}

// The id that nvfp4_layers gives; "" for one good layer, "none" for no layer.
std::string layers_id(const std::vector<Entry>& entries, Error* error = nullptr, std::string_view config = "") {
  const TempFolder folder;
  folder.write("model.safetensors", safetensors(entries));
  if (!config.empty()) folder.write("hf_quant_config.json", config);
  Result<Checkpoint> opened = Checkpoint::open(folder.path());
  if (!opened) return "open " + opened.error().id;
  Result<std::vector<NvFp4Layer>> layers = opened->nvfp4_layers();
  if (layers) return layers->empty() ? "none" : "";
  if (error != nullptr) *error = layers.error();
  return layers.error().id;
}

TEST(NvFp4Layers, PartsMissing) {
  EXPECT_EQ(layers_id(ct_layer()), "");
  EXPECT_EQ(layers_id(mo_layer()), "");
  for (const std::size_t part : {1U, 2U}) {
    std::vector<Entry> ct = ct_layer();
    ct.erase(ct.begin() + static_cast<std::ptrdiff_t>(part));
    EXPECT_EQ(layers_id(ct), "TE0231") << part;
    std::vector<Entry> mo = mo_layer();
    mo.erase(mo.begin() + static_cast<std::ptrdiff_t>(part));
    EXPECT_EQ(layers_id(mo), "TE0231") << part;
  }
}

TEST(NvFp4Layers, PartsThatDoNotFit) {
  std::vector<Entry> bad = ct_layer();
  bad[0] = {"m.weight_packed", "I8", {2, 16}, std::string(32, 'c')};
  EXPECT_EQ(layers_id(bad), "TE0232");
  bad[0] = {"m.weight_packed", "U8", {2, 15}, std::string(30, 'c')};
  EXPECT_EQ(layers_id(bad), "TE0232");
  bad[0] = {"m.weight_packed", "U8", {32}, std::string(32, 'c')};
  EXPECT_EQ(layers_id(bad), "TE0232");
  bad = mo_layer();
  bad[1] = {"m.weight_scale", "F8_E4M3", {2, 1}, "88"};
  EXPECT_EQ(layers_id(bad), "TE0232");
  bad[1] = {"m.weight_scale", "F8_E5M2", {2, 2}, "8888"};
  EXPECT_EQ(layers_id(bad), "TE0232");
  bad[1] = {"m.weight_scale", "F8_E4M3", {512}, std::string(512, '8')};
  EXPECT_EQ(layers_id(bad), "TE0235");
  bad = mo_layer();
  bad[2] = {"m.weight_scale_2", "F32", {2}, f32(1.0F) + f32(1.0F)};
  EXPECT_EQ(layers_id(bad), "TE0232");
  bad = mo_layer();
  bad.push_back({"m.pre_quant_scale", "F32", {1}, f32(1.0F)});
  EXPECT_EQ(layers_id(bad), "TE0235");
}

TEST(NvFp4Layers, OtherPackingsAreNotTaken) {
  EXPECT_EQ(
      layers_id({{"m.weight_packed", "I32", {2, 2}, std::string(16, 'c')}, {"m.weight_scale", "BF16", {2, 1}, "1234"}}),
      "none");
  EXPECT_EQ(
      layers_id({{"m.weight_packed", "U8", {2, 16}, std::string(32, 'c')}, {"m.weight_scale", "U8", {2, 1}, "88"}}),
      "none");
  EXPECT_EQ(layers_id({{"m.weight", "U8", {32, 1}, std::string(32, 'c')}, {"m.weight.absmax", "F32", {1}, f32(1.0F)}}),
            "none");
  EXPECT_EQ(layers_id({{"m.weight", "F8_E4M3", {2, 2}, "8888"}, {"m.weight_scale", "F32", {}, f32(1.0F)}}), "none");
}

TEST(NvFp4Layers, EveryScaleByteIsJudged) {
  for (int byte = 0; byte < 256; ++byte) {
    std::vector<Entry> entries = ct_layer();
    entries[1].data[3] = static_cast<char>(byte);
    Error error;
    const std::string id = layers_id(entries, &error);
    if (byte < 0x7F) {
      EXPECT_EQ(id, "") << byte;
    } else {
      ASSERT_EQ(id, "TE0233") << byte;
      EXPECT_NE(error.where.find("m.weight_scale"), std::string::npos);
      EXPECT_NE(error.where.find("row 1, block 1"), std::string::npos) << error.where;
    }
  }
}

TEST(NvFp4Layers, BadScaleFarBehindIsFoundAtItsPlace) {
  const std::int64_t rows = 70001;  // scales beyond one piece of 1 MiB
  std::string scales(static_cast<std::size_t>(rows * 17), '8');
  scales[static_cast<std::size_t>(65000 * 17 + 5)] = static_cast<char>(0x7F);
  Error error;
  EXPECT_EQ(layers_id({{"m.weight_packed", "U8", {rows, 136}, std::string(static_cast<std::size_t>(rows * 136), 'c')},
                       {"m.weight_scale", "F8_E4M3", {rows, 17}, scales},
                       {"m.weight_global_scale", "F32", {1}, f32(2.0F)}},
                      &error),
            "TE0233");
  EXPECT_NE(error.where.find("row 65000, block 5"), std::string::npos) << error.where;
}

TEST(NvFp4Layers, GlobalScales) {
  for (const float value : {0.0F, -0.0F, -1.0F, INFINITY, NAN}) {
    std::vector<Entry> ct = ct_layer();
    ct[2].data = f32(value);
    EXPECT_EQ(layers_id(ct), "TE0234") << value;
    std::vector<Entry> mo = mo_layer();
    mo.push_back({"m.input_scale", "F32", {}, f32(value)});
    EXPECT_EQ(layers_id(mo), "TE0234") << value;
  }
}

TEST(NvFp4Layers, Fp8ActivationScaleIsNoNvFp4Scale) {
  std::vector<Entry> entries = mo_layer();
  entries.push_back({"m.input_scale", "F32", {}, f32(0.25F)});
  const TempFolder folder;
  folder.write("model.safetensors", safetensors(entries));
  EXPECT_EQ((*Checkpoint::open(folder.path())->nvfp4_layers())[0].scheme, Scheme::w4a4);
  folder.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"W4A8_NVFP4_FP8"}})");
  EXPECT_EQ((*Checkpoint::open(folder.path())->nvfp4_layers())[0].scheme, Scheme::w4a16);
}

TEST(DenseMatrix, TypesAndAlignment) {
  const TempFolder folder;
  const std::string path = folder.write("x.safetensors", safetensors({{"a", "BF16", {2, 2}, "12345678"},
                                                                      {"b", "U8", {1, 1}, "x"},
                                                                      {"c", "F16", {1, 2}, "1234"},
                                                                      {"d", "F32", {4}, std::string(16, 'x')}}));
  Result<Checkpoint> opened = Checkpoint::open(path);
  ASSERT_TRUE(opened);
  Result<ConstMatrix> a = dense_matrix(*opened->find("a"));
  ASSERT_TRUE(a);
  EXPECT_EQ(a->type, DType::bf16);
  EXPECT_EQ(a->rows, 2);
  EXPECT_EQ(dense_matrix(*opened->find("b")).error().id, "TE0237");
  EXPECT_EQ(dense_matrix(*opened->find("c")).error().id, "TE0238");
  EXPECT_EQ(dense_matrix(*opened->find("d")).error().id, "TE0237");
}

}  // namespace
}  // namespace tetrad
