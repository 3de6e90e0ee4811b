// Lists of architectures and log lines: rules of the three syntaxes, ptxas' table, limits.
#include "tetrad/arch_list.hpp"

#include <gtest/gtest.h>

namespace tetrad {
namespace {

Toolkit cuda(std::string_view version) { return find_toolkit(version).value(); }

std::vector<std::string> images(std::string_view text, ArchSyntax syntax, std::string_view version = "13.0") {
  const Result<ArchList> list = read_arch_list(text, syntax, cuda(version));
  if (!list) return {list.error().id};
  std::vector<std::string> out;
  for (const BuiltTarget& built : list->targets) out.push_back(to_text(built.target));
  return out;
}

using Names = std::vector<std::string>;

TEST(ArchList, TorchSyntax) {
  EXPECT_EQ(images("8.0 9.0a;12.0+PTX", ArchSyntax::torch), (Names{"80", "90a", "120", "compute_120"}));
  EXPECT_EQ(images("hopper", ArchSyntax::torch), (Names{"90", "compute_90"}));
  EXPECT_EQ(images("Blackwell", ArchSyntax::torch), (Names{"100", "103", "120", "121", "compute_121"}));
  for (const char* bad : {"120", "12.", "1.2.3", ".0", "12.0b", "8.0+ptx", "cpu", "99999.0", "12.00"}) {
    EXPECT_EQ(images(bad, ArchSyntax::torch), Names{"TE0882"}) << bad;
  }
}

TEST(ArchList, CmakeSyntax) {
  EXPECT_EQ(images("120a-real;90-virtual;80", ArchSyntax::cmake), (Names{"120a", "compute_90", "80", "compute_80"}));
  EXPECT_EQ(images("native", ArchSyntax::cmake), Names{"TE0884"});
  EXPECT_EQ(images("12.0", ArchSyntax::cmake), Names{"TE0882"});
}

// The images that nvcc 13.0.88 --dryrun names for -arch=all and -arch=all-major.
TEST(ArchList, AllAsNvccExpandsIt) {
  EXPECT_EQ(images("all-major", ArchSyntax::cmake), (Names{"75", "80", "90", "100", "110", "120", "compute_120"}));
  EXPECT_EQ(images("-arch=all", ArchSyntax::nvcc),
            (Names{"75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121", "compute_120"}));
}

TEST(ArchList, NvccSyntax) {
  EXPECT_EQ(images("-gencode arch=compute_120f,code=[sm_120f,compute_120f] -gencode=arch=compute_90a,code=sm_90a",
                   ArchSyntax::nvcc),
            (Names{"120f", "compute_120f", "90a"}));
  EXPECT_EQ(images("-arch=sm_90a", ArchSyntax::nvcc), (Names{"90a", "compute_90a"}));
  EXPECT_EQ(images("-arch compute_80 -code sm_86,compute_80", ArchSyntax::nvcc), (Names{"86", "compute_80"}));
  for (const char* bad : {"-gencode arch=compute_120,code=sm_90", "-gencode arch=compute_120a,code=sm_121a",
                          "-gencode arch=compute_100f,code=sm_120", "-arch=sm_90 -code=sm_90"}) {
    EXPECT_EQ(images(bad, ArchSyntax::nvcc), Names{"TE0883"}) << bad;
  }
  for (const char* bad : {"-gencode", "-gencode arch=compute_90", "-code=sm_90", "-O3", "-arch=sm_"}) {
    EXPECT_EQ(images(bad, ArchSyntax::nvcc), Names{"TE0882"}) << bad;
  }
}

TEST(ArchList, LimitsOfTheText) {
  EXPECT_EQ(images(" ; ", ArchSyntax::torch), Names{"TE0881"});
  std::string many;
  for (int i = 0; i < 257; ++i) many += "8.0 ";
  EXPECT_EQ(images(many, ArchSyntax::torch), Names{"TE0881"});
  EXPECT_EQ(images(std::string(9000, '9'), ArchSyntax::cmake), Names{"TE0881"});
}

// What decides is the PTX: plain PTX assembled for sm_120a holds no FP4, family PTX assembled for sm_120 does.
TEST(ArchList, InstructionsComeFromThePtx) {
  const auto has_mma = [](std::string_view text) {
    const Result<ArchList> list = read_arch_list(text, ArchSyntax::nvcc, cuda("13.0"));
    for (const TensorOp op : list->targets.front().ops) {
      if (op == TensorOp::mma_nvfp4) return true;
    }
    return false;
  };
  EXPECT_FALSE(has_mma("-gencode arch=compute_120,code=sm_120a"));
  EXPECT_TRUE(has_mma("-gencode arch=compute_120f,code=sm_120"));
}

TEST(Toolkits, VersionsAndFirstReleases) {
  EXPECT_EQ(cuda("12.8.1").release, "12.8");
  EXPECT_EQ(cuda("12").release, "12.9");
  for (const char* bad : {"", "12.7", "1", "13.", "99999999999999999999", "x"}) EXPECT_FALSE(find_toolkit(bad)) << bad;
  const auto first = [](std::string_view target) { return first_release(parse_target(target).value()); };
  EXPECT_EQ(first("90a"), "12.0");
  EXPECT_EQ(first("120a"), "12.8");
  EXPECT_EQ(first("121a"), "12.9");
  EXPECT_EQ(first("120f"), "12.9");
  EXPECT_EQ(first("110a"), "13.0");
  EXPECT_EQ(first("200"), "");
}

TEST(Suggestions, PerDevice) {
  EXPECT_EQ(suggest({12, 1}).torch, "12.1a");
  EXPECT_EQ(suggest({12, 1}).family, "120f");
  EXPECT_EQ(suggest({10, 3}).family, "100f");
  EXPECT_EQ(suggest({9, 0}).cmake, "90a-real");
  EXPECT_EQ(suggest({8, 9}).torch, "8.9");
  EXPECT_EQ(suggest({9, 0}).family, "");
}

// Every suggestion, built by the release it names, gives the device its FP4.
TEST(Suggestions, AreRight) {
  for (const DeviceProfile& device : known_devices()) {
    const Suggestion s = suggest(device.cc);
    const Result<ArchList> list = read_arch_list(s.torch, ArchSyntax::torch, cuda(s.cuda));
    ASSERT_TRUE(list) << device.slug;
    const DeviceAnswer answer = answer_on(*list, device.cc);
    EXPECT_TRUE(answer.loads) << device.slug;
    EXPECT_NE(answer.fp4, Fp4Answer::no_suffix) << device.slug;
  }
}

TEST(Logs, WrongFamilyHasNoSuffixAdvice) {
  LogReader reader;
  reader.add_line("ptxas x.ptx, line 3; error : Instruction 'tcgen05.mma' not supported on .target 'sm_120a'");
  reader.add_line("all is well");
  ASSERT_EQ(reader.findings().size(), 1U);
  EXPECT_NE(reader.findings()[0].build.find("nothing"), std::string::npos);
  EXPECT_NE(reader.findings()[0].build.find("100a"), std::string::npos);
  EXPECT_EQ(reader.lines(), 2);
}

TEST(Logs, BytesAndCountsAreBounded) {
  LogReader reader;
  reader.add_line(std::string(1 << 20, '\xff') + "no kernel image is available");
  EXPECT_TRUE(reader.findings().empty());
  for (int i = 10; i < 999; ++i)
    reader.add_line("Value 'sm_" + std::to_string(i) + "' is not defined for option 'gpu-name'");
  EXPECT_LE(reader.findings().size(), 256U);
}

}  // namespace
}  // namespace tetrad
