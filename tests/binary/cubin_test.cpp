// Cubins made by ptxas and nvcc of CUDA 12.4 to 13.0, read against what nvdisasm counted in them
// (scripts/oracles/cubin_fixtures.py makes both).
#include "tetrad/cubin.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "binary/cubin/identity.hpp"

namespace tetrad {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(TETRAD_TEST_DATA) / "binary" / "cubin";

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

CubinReport read(const std::string& name) {
  Result<CubinReport> report = read_cubin(bytes_of(kFolder / name));
  EXPECT_TRUE(report) << name << ": " << (report ? "" : report.error().what);
  return report ? *report : CubinReport{};
}

const KernelReport& kernel(const CubinReport& report, const std::string& name) {
  for (const KernelReport& one : report.kernels) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << name << " is not there";
  static const KernelReport none;
  return none;
}

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".cubin") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The classes as the scripts write them, in the order of SassClass.
constexpr const char* kWords[] = {
    "omma",        "utcomma",     "qmma",        "qgmma",   "utcqmma", "hmma",   "hgmma",    "utchmma",
    "imma",        "igmma",       "utcimma",     "bmma",    "bgmma",   "dmma",   "fp4_pack", "fp4_unpack",
    "fp6_convert", "fp8_convert", "nibble_mask", "ldl",     "stl",     "ldg",    "stg",      "lds",
    "sts",         "ldsm",        "ldgsts",      "utmaldg", "utmastg", "ublkcp", "ldtm",     "sttm"};
static_assert(std::size(kWords) == kSassClasses);

TEST(Cubin, CountsEqualNvdisasm) {
  std::ifstream file(kFolder / "nvdisasm.json");
  const nlohmann::json expected = nlohmann::json::parse(file);
  ASSERT_EQ(expected.size(), files().size());
  SassCounts seen;
  for (const auto& [name, kernels] : expected.items()) {
    const CubinReport report = read(name);
    EXPECT_EQ(report.kernels.size(), kernels.size()) << name;
    for (const KernelReport& one : report.kernels) {
      ASSERT_TRUE(kernels.contains(one.name)) << name << " " << one.name;
      const nlohmann::json& counts = kernels[one.name];
      EXPECT_EQ(one.counts.instructions, counts["instructions"].get<std::uint64_t>()) << name << " " << one.name;
      for (std::size_t i = 0; i < kSassClasses; ++i) {
        EXPECT_EQ(one.counts.of[i], counts.value(kWords[i], std::uint64_t{0}))
            << name << " " << one.name << " " << kWords[i];
      }
    }
    seen += report.total;
  }
  for (std::size_t i = 0; i < kSassClasses; ++i) EXPECT_GT(seen.of[i], 0u) << "no sample holds " << kWords[i];
}

TEST(Cubin, TargetOfEachFormat) {
  // The file's name says what ptxas was asked for.
  for (const std::string& name : files()) {
    const CubinReport report = read(name);
    const std::size_t at = name.find("sm_") + 3;
    EXPECT_EQ(to_text(report.target), name.substr(at, name.rfind('.') - at)) << name;
    EXPECT_TRUE(report.target_sure) << name;
    if (name.starts_with("noop.")) {
      EXPECT_TRUE(report.toolkit.starts_with(name.substr(5, 4))) << name << report.toolkit;
    }
  }
}

// Without the tool's note other bytes tell `a`, and `f` where its instructions are used; the rest is not sure.
TEST(Cubin, TargetWithoutTheNote) {
  std::map<std::string, std::string> expected{
      {"noop.12.8.sm_120a", "120a"}, {"noop.12.9.sm_121a", "121a"},  {"noop.13.0.sm_120a", "120a"},
      {"noop.13.0.sm_90a", "90a"},   {"noop.13.0.sm_120f", "120 ?"}, {"noop.12.9.sm_120f", "120 ?"},
      {"noop.13.0.sm_120", "120 ?"}, {"tensor.sm_121f", "121f"},     {"header.sm_120f", "120f"}};
  for (const auto& [name, want] : expected) {
    std::vector<std::byte> bytes = bytes_of(kFolder / (name + ".cubin"));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (std::size_t at = text.find(".note.nv.tkinfo"); at != std::string::npos;
         at = text.find(".note.nv.tkinfo", at + 1)) {
      bytes[at + 1] = std::byte{'x'};
    }
    const Result<CubinReport> report = read_cubin(bytes);
    ASSERT_TRUE(report) << name;
    EXPECT_EQ(to_text(report->target) + (report->target_sure ? "" : " ?"), want) << name;
  }
}

TEST(Cubin, ArgumentsThatNameATarget) {
  const auto target = [](std::string_view text) {
    const std::optional<Target> found = binary::target_of_command(text);
    return found ? to_text(*found) : "none";
  };
  EXPECT_EQ(target("-arch sm_120a -m 64"), "120a");
  EXPECT_EQ(target("--gpu-name=sm_90a -v"), "90a");
  EXPECT_EQ(target("-arch=compute_120f"), "120f");
  EXPECT_EQ(target("-O3"), "none");
  EXPECT_EQ(target("-arch sm_120a -arch sm_121a"), "none");
  EXPECT_EQ(target("-o my_sm_90a.cubin -arch sm_100a"), "100a");
}

TEST(Cubin, VerdictOfEachUnit) {
  const auto verdict = [](const char* file, const char* name) { return kernel(read(file), name).verdict; };
  EXPECT_EQ(verdict("tensor.sm_120a.cubin", "omma_nvfp4"), KernelClass::native_fp4);
  EXPECT_EQ(verdict("tensor.sm_120a.cubin", "omma_sparse"), KernelClass::native_fp4);
  EXPECT_EQ(verdict("tensor.sm_121f.cubin", "omma_mxfp4"), KernelClass::native_fp4);
  EXPECT_EQ(verdict("tensor.sm_100a.cubin", "utcomma_nvfp4_tensor"), KernelClass::native_fp4);
  // E2M1 operands alone do not make it FP4.
  EXPECT_EQ(verdict("tensor.sm_120a.cubin", "qmma_e2m1"), KernelClass::fp8);
  EXPECT_EQ(verdict("tensor.sm_100a.cubin", "utcqmma_scaled"), KernelClass::fp8);
  EXPECT_EQ(verdict("tensor.sm_90a.cubin", "qgmma_registers"), KernelClass::fp8);
  EXPECT_EQ(verdict("tensor.sm_80.cubin", "dequantised"), KernelClass::dequantised);
  EXPECT_EQ(verdict("tensor.sm_80.cubin", "hmma_f16"), KernelClass::half);
  EXPECT_EQ(verdict("tensor.sm_90a.cubin", "hgmma"), KernelClass::half);
  EXPECT_EQ(verdict("tensor.sm_100a.cubin", "utcimma"), KernelClass::integer);
  EXPECT_EQ(verdict("tensor.sm_80.cubin", "dmma"), KernelClass::fp64);
  EXPECT_EQ(verdict("tensor.sm_120a.cubin", "fp4_pack"), KernelClass::none);
  EXPECT_EQ(kernel(read("tensor.sm_120a.cubin"), "omma_nvfp4").why, "1 OMMA");
}

// Case B02: plain sm_120 converts in software, the family target has the instruction.
TEST(Cubin, SoftwareConversionOfPlainTargets) {
  for (const char* target : {"80", "90", "120"}) {
    const CubinReport report = read(std::string("header.sm_") + target + ".cubin");
    EXPECT_TRUE(kernel(report, "pack_e2m1").software_fp4_pack) << target;
    EXPECT_TRUE(kernel(report, "unpack_e2m1").software_fp4_unpack) << target;
    for (const char* other : {"pack_e3m2", "unpack_e2m3"}) {
      EXPECT_FALSE(kernel(report, other).software_fp4_pack) << target << other;
      EXPECT_FALSE(kernel(report, other).software_fp4_unpack) << target << other;
    }
  }
  const CubinReport family = read("header.sm_120f.cubin");
  EXPECT_FALSE(kernel(family, "pack_e2m1").software_fp4_pack);
  EXPECT_FALSE(kernel(family, "unpack_e2m1").software_fp4_unpack);
  EXPECT_GT(family.total[SassClass::fp4_pack], 0u);
  EXPECT_GT(family.total[SassClass::fp4_unpack], 0u);
}

// ptxas -v says: 32 registers, 1200 bytes of shared memory, a stack frame with spills.
TEST(Cubin, ResourcesOfAKernel) {
  const CubinReport report = read("spills.sm_90a.cubin");
  const KernelReport& spills = kernel(report, "spills");
  EXPECT_TRUE(spills.entry);
  EXPECT_EQ(spills.registers, 32);
  EXPECT_EQ(spills.static_shared, 1200);
  EXPECT_EQ(spills.max_threads, 256);
  EXPECT_GT(spills.frame, 0);
  EXPECT_EQ(spills.stack, spills.frame);
  EXPECT_TRUE(spills.spills());
  const CubinReport linkable = read("linkable.sm_120f.cubin");
  EXPECT_TRUE(linkable.relocatable);
  EXPECT_FALSE(kernel(linkable, "spills").spills());
  EXPECT_EQ(kernel(linkable, "spills").static_shared, 1200);
}

// Its shared memory is a section of 4096 bytes that begins near the end of a file of 3008.
TEST(Cubin, OldLinkableFilesHaveSectionsWithoutBytes) {
  const CubinReport report = read("linkable.12.4.sm_80.cubin");
  EXPECT_TRUE(report.relocatable);
  EXPECT_EQ(kernel(report, "memory").static_shared, 4096);
}

TEST(Cubin, EveryClassHasAName) {
  std::map<std::string_view, int> names;
  for (std::size_t i = 0; i < kSassClasses; ++i) ++names[name(static_cast<SassClass>(i))];
  EXPECT_EQ(names.size(), kSassClasses);
  EXPECT_EQ(names.count(""), 0u);
}

TEST(Cubin, DamagedFilesAreRefusedOrReadInBounds) {
  const std::vector<std::byte> whole = bytes_of(kFolder / "noop.13.0.sm_120a.cubin");
  const std::size_t last_header = 4700;  // in the table of sections, which all else needs
  for (std::size_t size = 0; size < last_header; size += 61) {
    // A copy of exactly that size, so that a sanitizer sees reads beyond it.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(read_cubin(cut)) << size;
  }
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::vector<std::byte> bent = whole;
    bent[at] ^= std::byte{0xff};
    refused += read_cubin(bent) ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

TEST(Cubin, SharedCodeBytesAreRefused) {
  std::vector<std::byte> bytes = bytes_of(kFolder / "tensor.sm_90a.cubin");
  const auto word = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
    return value;
  };
  const auto put = [&](std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  // Every code section becomes the whole file.
  const std::size_t table = word(40, 8);
  const std::size_t count = word(60, 2);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = table + 64 * i;
    if (word(at + 4, 4) != 1 || (word(at + 8, 8) & 4) == 0) continue;  // SHT_PROGBITS, SHF_EXECINSTR
    put(at + 24, 0);
    put(at + 32, bytes.size());
  }
  const Result<CubinReport> report = read_cubin(bytes);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().id, "TE0823");
}

TEST(Cubin, OtherFilesAreRefused) {
  const std::string text = "nothing of the kind";
  const Result<CubinReport> report = read_cubin(std::as_bytes(std::span(text)));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().id, "TE0821");
}

}  // namespace
}  // namespace tetrad
