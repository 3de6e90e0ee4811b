// Any bytes as a library, archive, cubin, fat binary or PTX file: the reader answers with images that lie in the file,
// or with problems.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "binary/elf.hpp"
#include "binary/kernel_name.hpp"
#include "binary/scan.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_elf(tetrad::binary::Bytes bytes) {
  using namespace tetrad::binary;
  const tetrad::Result<Elf> elf = Elf::open(bytes, "fuzz");
  if (!elf) return require(!elf.error().id.empty() && !elf.error().what.empty());
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < elf->section_count(); ++i) {
    const ElfSection section = elf->section(i);
    if (!section.data.empty()) sum += static_cast<std::uint64_t>(section.data.back());
    if (section.type == kSectionSymbols) {
      (void)elf->symbols(section, [&](const ElfSymbol& symbol) { return ++sum, symbol.name.size() <= bytes.size(); });
    }
    if (section.type == kSectionNotes) {
      (void)elf->notes(section, [&](const ElfNote& note) { return ++sum, note.desc.size() <= bytes.size(); });
    }
  }
  require(sum < ~std::uint64_t{0});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tetrad::binary::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  check_elf(bytes);
  (void)tetrad::binary::template_name(tetrad::binary::as_text(bytes));
  const tetrad::BinaryFile file = tetrad::binary::read_bytes(bytes, "fuzz");
  std::uint64_t modules = 0;
  for (const tetrad::ModuleKind& kind : file.kinds) modules += kind.modules;
  require(modules <= file.images.size());
  for (const tetrad::CodeImage& image : file.images) {
    require(image.offset < size && image.stored_bytes <= size - image.offset);
  }
  for (const tetrad::ComputeCapability device :
       {tetrad::ComputeCapability{9, 0}, tetrad::ComputeCapability{12, 1}, tetrad::ComputeCapability{}}) {
    const tetrad::DeviceAnswer answer = tetrad::answer_for(file, device);
    require(answer.native_modules + answer.jit_modules + answer.missing_modules == modules);
  }
  return 0;
}
