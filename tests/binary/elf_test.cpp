#include "binary/elf.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "binary/kernel_name.hpp"

namespace tetrad::binary {
namespace {

std::string cubin() {
  std::ifstream file(TETRAD_TEST_DATA "/binary/cubin/noop.13.0.sm_120f.cubin", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put(std::string& text, std::size_t at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) text[at + i] = static_cast<char>(value >> (8 * i));
}

TEST(Elf, ReadsSectionsSymbolsAndNotes) {
  const std::string text = cubin();
  const Result<Elf> elf = Elf::open(as_bytes(text), "x");
  ASSERT_TRUE(elf.has_value());
  EXPECT_EQ(elf->header().machine, kMachineCuda);
  EXPECT_EQ(elf_extent(as_bytes(text)), text.size());
  const std::optional<ElfSection> symbols = elf->find(".symtab");
  ASSERT_TRUE(symbols.has_value());
  std::size_t functions = 0;
  ASSERT_TRUE(elf->symbols(*symbols, [&](const ElfSymbol& symbol) {
    functions += symbol.type == kSymbolFunction ? 1 : 0;
    return true;
  }));
  EXPECT_GT(functions, 0U);
  const std::optional<ElfSection> notes = elf->find(".note.nv.tkinfo");
  ASSERT_TRUE(notes.has_value());
  std::size_t count = 0;
  ASSERT_TRUE(elf->notes(*notes, [&](const ElfNote& note) { return ++count, !note.desc.empty(); }));
  EXPECT_GT(count, 0U);
}

TEST(Elf, RefusesWhatLies) {
  const std::string good = cubin();
  const auto id = [](const std::string& text) {
    const Result<Elf> elf = Elf::open(as_bytes(text), "x");
    return elf ? std::string("none") : elf.error().id;
  };
  const auto changed = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    std::string bad = good;
    put(bad, at, value, size);
    return id(bad);
  };
  EXPECT_EQ(id(good), "none");
  EXPECT_EQ(id(""), "TE0800");
  EXPECT_EQ(id("text"), "TE0800");
  EXPECT_EQ(id(good.substr(0, 40)), "TE0801");
  EXPECT_EQ(changed(4, 1, 1), "TE0800");       // 32 bits
  EXPECT_EQ(changed(5, 2, 1), "TE0800");       // big endian
  EXPECT_EQ(changed(40, ~0ULL, 8), "TE0801");  // the section headers' place
  EXPECT_EQ(changed(40, good.size() - 10, 8), "TE0801");
  EXPECT_EQ(changed(58, 40, 2), "TE0801");      // their size
  EXPECT_EQ(changed(60, 0xfeff, 2), "TE0801");  // their number
  EXPECT_EQ(changed(60, 0, 2), "none");         // the number stands in section 0: there are none
  EXPECT_EQ(changed(62, 0xff00, 2), "TE0801");  // the section of names
  for (std::size_t size = 0; size < good.size(); size += 13) EXPECT_NE(id(good.substr(0, size)), "none") << size;
  std::uint64_t sections = 0;
  for (std::size_t i = 0; i < 8; ++i) sections |= std::uint64_t{static_cast<unsigned char>(good[40 + i])} << (8 * i);
  const std::size_t second = static_cast<std::size_t>(sections) + 64;
  EXPECT_EQ(changed(second + 24, ~0ULL - 4, 8), "TE0802");
  EXPECT_EQ(changed(second + 32, 1ULL << 62, 8), "TE0802");
  EXPECT_EQ(changed(second, 0x7fffffff, 4), "TE0803");
}

TEST(KernelName, Templates) {
  EXPECT_EQ(template_name("plain"), "plain");
  EXPECT_EQ(template_name("_Z5scaleIfLi4EEvPT_S0_"), "scale");
  EXPECT_EQ(template_name("_ZN6marlin6MarlinILl1125899907006480ELi128ELb0EEEvPK4int4"), "marlin::Marlin");
  EXPECT_EQ(
      template_name(
          "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_3FooEEEEEvNT_6ParamsE"),
      "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal>");
  EXPECT_EQ(template_name("_ZN44_GLOBAL__N__0a1b2c3d_7_file_cu_89abcdef_00066kernelEv"),
            "(anonymous namespace)::kernel");
  EXPECT_EQ(template_name("_ZN3FooIiLi3EE3barIdEEvT_"), "Foo::bar");
  EXPECT_EQ(template_name("_Z"), "_Z");
  EXPECT_EQ(template_name("_ZN99999999999999999999x"), "_ZN99999999999999999999x");
  EXPECT_EQ(readable_name("_Z5scaleIfLi4EEvPT_S0_"), "void scale<float, 4>(float*, float)");
}

TEST(KernelName, HostileNamesStaySmall) {
  // Each repetition doubles what a demangler prints.
  std::string bomb = "_Z1fI1AIiiE";
  for (int i = 0; i < 60; ++i) bomb += "1AIS" + std::string(i == 0 ? "_" : std::to_string(i - 1) + "_") + "S_E";
  bomb += "EvT_";
  EXPECT_LT(readable_name(bomb).size(), 10000U);
  EXPECT_LT(template_name("_ZN" + std::string(100000, 'I')).size(), 200000U);
  EXPECT_LT(template_name("_Z1f" + std::string(100000, 'I')).size(), 200000U);
}

}  // namespace
}  // namespace tetrad::binary
