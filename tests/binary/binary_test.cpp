#include "tetrad/binary.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "binary/archive.hpp"
#include "binary/scan.hpp"

namespace tetrad {
namespace {

namespace fs = std::filesystem;
using binary::Bytes;
using binary::read_bytes;

const std::string kData = TETRAD_TEST_DATA "/binary/";

std::string load_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

BinaryFile read(const std::string& text) { return read_bytes(binary::as_bytes(text), "x"); }

std::vector<std::string> targets(const BinaryFile& file, ImageKind kind) {
  std::vector<std::string> out;
  for (const CodeImage& image : file.images) {
    if (image.kind == kind) out.push_back(image.target ? to_text(*image.target) : "?");
  }
  std::sort(out.begin(), out.end());
  return out;
}

void put(std::string& text, std::size_t at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) text[at + i] = static_cast<char>(value >> (8 * i));
}

// A folder that goes away.
class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tetrad-binary-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  void write_zip(const std::string& name, const std::vector<std::pair<std::string, std::string>>& files) const {
    zip_t* zip = zip_open(path(name).c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    ASSERT_NE(zip, nullptr);
    for (const auto& [inside, text] : files) {
      zip_source_t* source = zip_source_buffer(zip, text.data(), text.size(), 0);
      ASSERT_GE(zip_file_add(zip, inside.c_str(), source, ZIP_FL_ENC_UTF_8), 0);
    }
    ASSERT_EQ(zip_close(zip), 0);
  }
  fs::path folder_;
};

TEST(Fatbin, EveryPackingGivesTheSameImages) {
  const std::vector<std::pair<std::string, ImagePacking>> cases = {
      {"none.fatbin", ImagePacking::none}, {"lz4.fatbin", ImagePacking::lz4}, {"zstd.fatbin", ImagePacking::zstd}};
  std::vector<SassCounts> first;
  for (const auto& [name, packing] : cases) {
    const BinaryFile file = read(load_file(kData + "fatbin/" + name));
    EXPECT_TRUE(file.problems.empty()) << name;
    EXPECT_EQ(targets(file, ImageKind::cubin), (std::vector<std::string>{"120f", "80", "90a"})) << name;
    EXPECT_EQ(targets(file, ImageKind::ptx), (std::vector<std::string>{"compute_80"})) << name;
    std::vector<SassCounts> counts;
    for (const CodeImage& image : file.images) {
      EXPECT_EQ(image.packing, packing) << name;
      EXPECT_EQ(image.kernels, 3U) << name;
      EXPECT_EQ(image.module, 0U) << name;
      counts.push_back(image.counts);
    }
    if (first.empty()) first = counts;
    EXPECT_EQ(counts, first) << name;
    ASSERT_EQ(file.kinds.size(), 1U);
    EXPECT_EQ(file.kinds[0].modules, 1U);
    ASSERT_EQ(file.groups.size(), 6U);  // scale and plain, three targets
    EXPECT_EQ(file.groups[0].name, "scale");
    EXPECT_EQ(file.groups[0].kernels, 2U);
  }
}

TEST(Fatbin, SuffixesAndKinds) {
  const BinaryFile family = read(load_file(kData + "fatbin/ptx_120f.fatbin"));
  EXPECT_EQ(targets(family, ImageKind::ptx), (std::vector<std::string>{"compute_120f"}));
  const BinaryFile exact = read(load_file(kData + "fatbin/a_and_ptx.fatbin"));
  EXPECT_EQ(targets(exact, ImageKind::cubin), (std::vector<std::string>{"120a"}));
  EXPECT_EQ(targets(exact, ImageKind::ptx), (std::vector<std::string>{"compute_120a"}));
  const BinaryFile lto = read(load_file(kData + "fatbin/lto.fatbin"));
  ASSERT_EQ(lto.images.size(), 1U);
  EXPECT_EQ(lto.images[0].kind, ImageKind::lto_ir);
  EXPECT_EQ(answer_for(lto, {9, 0}).missing_modules, 1U);
}

TEST(Fatbin, SectionsOfHostObjects) {
  const BinaryFile host = read(load_file(kData + "fatbin/host.o"));
  ASSERT_EQ(host.images.size(), 4U);
  for (const CodeImage& image : host.images) EXPECT_EQ(image.section, ".nv_fatbin");
  const BinaryFile linkable = read(load_file(kData + "fatbin/relocatable.o"));
  ASSERT_EQ(linkable.images.size(), 4U);
  for (const CodeImage& image : linkable.images) EXPECT_EQ(image.section, "__nv_relfatbin");
}

TEST(Fatbin, RelocatableCodeInALinkedLibraryDoesNotCount) {
  std::string linked = load_file(kData + "fatbin/relocatable.o");
  EXPECT_EQ(read(linked).kinds.size(), 1U);
  put(linked, 16, 3, 2);  // ET_DYN
  const BinaryFile file = read(linked);
  ASSERT_EQ(file.images.size(), 4U);
  for (const CodeImage& image : file.images) EXPECT_TRUE(image.linker_input);
  EXPECT_TRUE(file.kinds.empty());
  EXPECT_TRUE(file.groups.empty());
  EXPECT_TRUE(answer_for(file, {9, 0}).loaded.empty());
}

TEST(Fatbin, LooseCubinsInsideOtherBytesAreFound) {
  const std::string cubin = load_file(kData + "cubin/tensor.sm_120a.cubin");
  ASSERT_FALSE(cubin.empty());
  std::string host(100, 'x');
  host.replace(0, 2, "MZ");
  const std::string twice = host + cubin + "some bytes" + cubin + std::string(77, 'y');
  const BinaryFile file = read(twice);
  EXPECT_TRUE(file.problems.empty());
  ASSERT_EQ(file.images.size(), 2U);
  EXPECT_EQ(file.images[0].offset, 100U);
  EXPECT_EQ(file.images[1].offset, 100 + cubin.size() + 10);
  EXPECT_EQ(file.images[1].stored_bytes, cubin.size());
  EXPECT_EQ(file.kinds.at(0).modules, 2U);
  EXPECT_GT(answer_for(file, {12, 0}).verdicts[0], 0U);
}

TEST(Fatbin, CutAnywhere) {
  for (const char* name : {"fatbin/zstd.fatbin", "fatbin/host.o", "cubin/noop.13.0.sm_120f.cubin"}) {
    const std::string whole = load_file(kData + name);
    const std::size_t images = read(whole).images.size();
    for (std::size_t size = 0; size < whole.size(); size += 61) {
      const BinaryFile file = read(whole.substr(0, size));
      EXPECT_LE(file.images.size(), images) << name << " " << size;
      if (size >= 64) {
        EXPECT_FALSE(file.problems.empty()) << name << " " << size;
      }
    }
  }
}

TEST(Fatbin, SizesThatLie) {
  const std::string good = load_file(kData + "fatbin/zstd.fatbin");
  const auto id = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    std::string bad = good;
    put(bad, at, value, size);
    const BinaryFile file = read(bad);
    return file.problems.empty() ? std::string("none") : file.problems[0].id;
  };
  EXPECT_EQ(id(8, ~0ULL, 8), "TE0806");            // the container, after its last entry
  EXPECT_EQ(id(8, 40, 8), "TE0807");               // no room for an entry
  EXPECT_EQ(id(16 + 4, 0xffffffff, 4), "TE0807");  // the entry's header
  EXPECT_EQ(id(16 + 4, 8, 4), "TE0807");
  EXPECT_EQ(id(16 + 8, 1ULL << 63, 8), "TE0807");   // the image
  EXPECT_EQ(id(16 + 16, 0xfffffff0, 4), "TE0807");  // the packed bytes
  EXPECT_EQ(id(16 + 16, 10, 4), "TE0809");
  EXPECT_EQ(id(16 + 56, 1ULL << 40, 8), "TE0808");  // unpacked
  EXPECT_EQ(id(16 + 56, 600ULL << 20, 8), "TE0808");
  EXPECT_EQ(id(16 + 56, 1000, 8), "TE0809");
  std::string huge = good;
  put(huge, 8, 1ULL << 50, 8);
  put(huge, 16 + 8, 1ULL << 40, 8);
  EXPECT_EQ(read(huge).problems.at(0).id, "TE0808");
  // Images before the damage stay.
  std::string late = good;
  put(late, 8, ~0ULL, 8);
  EXPECT_EQ(read(late).images.size(), 4U);
}

TEST(Fatbin, FlippedBytesNeverBreakTheReader) {
  const std::string good = load_file(kData + "fatbin/lz4.fatbin");
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x5a);
    (void)read(bad);
  }
}

TEST(Answer, WhatLoadsAndWhatIsMissing) {
  const BinaryFile file = read(load_file(kData + "fatbin/zstd.fatbin"));  // 80, 90a, 120f, PTX 80
  const auto loads = [&](ComputeCapability device) {
    const DeviceAnswer answer = answer_for(file, device);
    return answer.loaded.empty() ? std::string("-")
                                 : to_text(answer.loaded[0].target) + (answer.loaded[0].jit ? " jit" : "");
  };
  EXPECT_EQ(loads({8, 0}), "80");
  EXPECT_EQ(loads({8, 9}), "80");
  EXPECT_EQ(loads({9, 0}), "90a");
  EXPECT_EQ(loads({10, 0}), "compute_80 jit");
  EXPECT_EQ(loads({12, 0}), "120f");
  EXPECT_EQ(loads({12, 1}), "120f");
  EXPECT_EQ(loads({7, 5}), "-");

  const BinaryFile exact = read(load_file(kData + "fatbin/a_and_ptx.fatbin"));
  const DeviceAnswer gb10 = answer_for(exact, {12, 1});
  EXPECT_EQ(gb10.native_modules + gb10.jit_modules, 0U);
  ASSERT_EQ(gb10.missing.size(), 1U);
  EXPECT_NE(gb10.missing[0].why.find("exactly 12.0"), std::string::npos) << gb10.missing[0].why;
  EXPECT_EQ(gb10.missing[0].need, "121a, 121f, 120f, 121 or compute_121");

  const BinaryFile family = read(load_file(kData + "fatbin/ptx_120f.fatbin"));
  EXPECT_EQ(answer_for(family, {12, 1}).jit_modules, 1U);
  EXPECT_EQ(answer_for(family, {9, 0}).missing_modules, 1U);
}

TEST(Ptx, TargetAndInstructions) {
  const BinaryFile file = read(
      "//\n// made by hand\n/* x */\n.version 8.7\n.target sm_120a, debug\n.address_size 64\n.visible .entry k(\n)\n{ "
      "mma.sync.aligned.kind::mxf4nvf4.block_scale; }\n");
  ASSERT_EQ(file.images.size(), 1U);
  EXPECT_EQ(file.images[0].kind, ImageKind::ptx);
  EXPECT_EQ(to_text(*file.images[0].target), "compute_120a");
  EXPECT_EQ(file.images[0].toolkit, "8.7");
  EXPECT_EQ(file.images[0].kernels, 1U);
  EXPECT_TRUE(file.images[0].fp4_text);
  EXPECT_EQ(answer_for(file, {12, 0}).fp4_jit_modules, 1U);
  EXPECT_EQ(answer_for(file, {12, 1}).fp4_jit_modules, 0U);
}

std::string member(const std::string& name, const std::string& text) {
  std::string head(60, ' ');
  head.replace(0, name.size(), name);
  const std::string size = std::to_string(text.size());
  head.replace(48, size.size(), size);
  head.replace(58, 2, "`\n");
  return head + text + (text.size() % 2 == 1 ? "\n" : "");
}

TEST(Archive, MembersOfBothNameStyles) {
  const std::string object = load_file(kData + "fatbin/host.o");
  const std::string long_names = "a_member_with_a_long_name.o/\nanother.o/\n";
  const std::string archive = "!<arch>\n" + member("/", "odd") + member("//", long_names) + member("/0", object) +
                              member("short.o/", object) + member("#1/8", std::string("bsd.o\0\0\0", 8) + object) +
                              member("readme/", "text");
  const BinaryFile file = read(archive);
  EXPECT_TRUE(file.problems.empty());
  ASSERT_EQ(file.images.size(), 12U);
  EXPECT_EQ(file.images[0].section, "a_member_with_a_long_name.o");
  EXPECT_EQ(file.images[4].section, "short.o");
  EXPECT_EQ(file.kinds.at(0).modules, 3U);

  const auto id = [](const std::string& text) {
    const BinaryFile bad = read(text);
    return bad.problems.empty() ? std::string("none") : bad.problems[0].id;
  };
  EXPECT_EQ(id("!<thin>\n" + member("x.o/", "")), "TE0812");
  EXPECT_EQ(id(archive.substr(0, 5000)), "TE0812");
  EXPECT_EQ(id("!<arch>\n" + member("/9", "x")), "TE0812");
  EXPECT_EQ(id("!<arch>\n" + std::string(30, 'x')), "TE0812");
  EXPECT_EQ(id("!<arch>\n" + member("#1/99999999", "x")), "TE0812");
}

TEST_F(Folder, FilesAndLinks) {
  write("a/lib.so", load_file(kData + "fatbin/host.o"));
  write("a/loose.cubin", load_file(kData + "cubin/tensor.sm_120a.cubin"));
  write("a/readme.txt", "nothing");
  write("a/broken.so", load_file(kData + "fatbin/host.o").substr(0, 3000));
  fs::create_symlink("lib.so", folder_ / "a/lib.so.1");
  fs::create_symlink("..", folder_ / "a/loop");
  ASSERT_EQ(::mkfifo(path("a/pipe").c_str(), 0600), 0);
  const Result<BinaryReport> report = read_binary(path("a"));
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->files.size(), 3U);
  EXPECT_EQ(report->files_seen, 4U);
  EXPECT_EQ(report->files[0].path, path("a/broken.so"));
  EXPECT_FALSE(report->files[0].problems.empty());
  EXPECT_EQ(report->files[1].images.size(), 4U);
  EXPECT_EQ(report->files[2].images.size(), 1U);

  EXPECT_EQ(read_binary(path("nowhere")).error().id, "TE0810");
  EXPECT_EQ(read_binary(path("a/pipe")).error().id, "TE0810");
  EXPECT_EQ(read_binary(path("a/readme.txt")).error().id, "TE0811");
}

TEST_F(Folder, ThreadsGiveTheSameReport) {
  for (int i = 0; i < 20; ++i) write("lib" + std::to_string(i) + ".so", load_file(kData + "fatbin/host.o"));
  BinaryOptions one;
  one.threads = 1;
  BinaryOptions many;
  many.threads = 8;
  const Result<BinaryReport> a = read_binary(folder_.string(), one);
  const Result<BinaryReport> b = read_binary(folder_.string(), many);
  ASSERT_TRUE(a.has_value() && b.has_value());
  ASSERT_EQ(a->files.size(), 20U);
  ASSERT_EQ(b->files.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(a->files[i].path, b->files[i].path);
    ASSERT_EQ(a->files[i].images.size(), b->files[i].images.size());
    for (std::size_t k = 0; k < a->files[i].images.size(); ++k) {
      EXPECT_EQ(a->files[i].images[k].offset, b->files[i].images[k].offset);
      EXPECT_EQ(a->files[i].images[k].counts, b->files[i].images[k].counts);
    }
  }
}

TEST_F(Folder, Wheel) {
  write_zip("x.whl", {{"pkg/_C.so", load_file(kData + "fatbin/host.o")},
                      {"pkg/k.cubin", load_file(kData + "cubin/tensor.sm_120a.cubin")},
                      {"pkg/__init__.py", "import os\n"}});
  BinaryOptions options;
  options.kernels = "*plain*";
  const Result<BinaryReport> report = read_binary(path("x.whl"), options);
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->problems.empty());
  ASSERT_EQ(report->files.size(), 2U);
  EXPECT_EQ(report->files[0].path, path("x.whl/pkg/_C.so"));
  EXPECT_EQ(report->files[0].images.size(), 4U);
  EXPECT_EQ(report->files[0].kernels.size(), 3U);
  EXPECT_EQ(report->files[0].kernels[0].name, "plain");
}

TEST_F(Folder, ZipsThatLie) {
  const std::string object = load_file(kData + "fatbin/host.o");
  const auto id = [&](const std::string& name) {
    const Result<BinaryReport> report = read_binary(path(name));
    if (!report) return report.error().id;
    if (!report->problems.empty()) return report->problems[0].id;
    for (const BinaryFile& file : report->files) {
      if (!file.problems.empty()) return file.problems[0].id;
    }
    return std::string("none");
  };
  for (const char* name : {"../evil.so", "/abs.so", "a/../../b.so", "c:\\x.so", "a\\b.so"}) {
    write_zip("path.whl", {{name, object}});
    EXPECT_EQ(id("path.whl"), "TE0814") << name;
  }
  write_zip("good.whl", {{"lib.so", object}, {"two.so", object}});
  const std::string good = load_file(path("good.whl"));
  EXPECT_EQ(id("good.whl"), "none");

  write("cut.whl", good.substr(0, good.size() / 2));
  EXPECT_EQ(id("cut.whl"), "TE0813");
  std::string flipped = good;
  flipped[200] = static_cast<char>(flipped[200] ^ 0x40);
  write("flipped.whl", flipped);
  EXPECT_EQ(id("flipped.whl"), "TE0813");

  // A directory that announces 3 GB for each of its files; then one whose files share bytes.
  const auto patch = [&](std::size_t field, std::uint64_t value) {
    std::string bad = good;
    for (std::size_t at = bad.find("PK\x01\x02"); at != std::string::npos; at = bad.find("PK\x01\x02", at + 4)) {
      put(bad, at + field, value, 4);
    }
    return bad;
  };
  write("bomb.whl", patch(24, 3U << 30));
  EXPECT_EQ(id("bomb.whl"), "TE0815");
  write("overlap.whl", patch(20, static_cast<std::uint64_t>(good.size()) * 3 / 4));
  EXPECT_EQ(id("overlap.whl"), "TE0815");
  write("empty.whl", "PK\x05\x06" + std::string(18, '\0'));
  EXPECT_EQ(id("empty.whl"), "none");
}

}  // namespace
}  // namespace tetrad
