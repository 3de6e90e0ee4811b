// ELF64 files over bytes that may lie (internal): nothing is copied, nothing is allocated by what a header claims.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "binary/bytes.hpp"

namespace tetrad::binary {

inline constexpr std::uint16_t kMachineCuda = 190;   // EM_CUDA
inline constexpr std::uint32_t kSectionSymbols = 2;  // SHT_SYMTAB
inline constexpr std::uint32_t kSectionNotes = 7;    // SHT_NOTE
inline constexpr std::uint32_t kSectionNoBits = 8;   // SHT_NOBITS
// Memory of a kernel in linkable cubins before CUDA 12.8, SHT_LOPROC plus 7 (global), 9 (local), 10 (shared), 21
// (reserved shared): sizes without bytes, as SHT_NOBITS.
inline constexpr std::uint32_t kSectionsOfMemory[] = {0x70000007, 0x70000009, 0x7000000a, 0x70000015};
inline constexpr std::uint8_t kSymbolFunction = 2;  // STT_FUNC
inline constexpr std::uint64_t kElfHeaderSize = 64;

struct ElfHeader {
  std::uint8_t os_abi = 0;
  std::uint8_t abi_version = 0;
  std::uint16_t type = 0;  // 1 relocatable, 2 executable, 3 shared object
  std::uint16_t machine = 0;
  std::uint32_t flags = 0;
  std::uint64_t program_offset = 0;  // of the program headers; 0 where there are none
  std::uint32_t program_count = 0;
  std::uint64_t section_offset = 0;  // of the section headers; 0 where there are none
  std::uint32_t section_count = 0;
  std::uint32_t names_index = 0;
};

struct ElfSection {
  std::string_view name;
  std::uint32_t index = 0;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
  std::uint32_t info = 0;
  std::uint64_t entry_size = 0;
  Bytes data;  // empty where the type has none
};

struct ElfSymbol {
  std::string_view name;
  std::uint8_t type = 0;
  std::uint8_t binding = 0;
  std::uint8_t other = 0;
  std::uint32_t section = 0;  // 0 undefined; from 0xff00 on reserved, an extended index is resolved
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

struct ElfNote {
  std::string_view name;  // without its NUL
  std::uint32_t type = 0;
  Bytes desc;
};

// True where a section of that type has bytes in the file.
bool has_bytes(std::uint32_t type, std::uint16_t machine);
// True where `bytes` begin like an ELF file of any kind.
bool looks_like_elf(Bytes bytes);
// True where `bytes` begin like a cubin: ELF64, little endian, EM_CUDA.
bool looks_like_cubin(Bytes bytes);

// A checked view of one ELF64 little-endian file. `bytes` must outlive it and all that it returns.
class Elf {
 public:
  // Checks the header, and every section's header, name and place, so that what follows cannot fail. `where` names the
  // file in errors. Errors (input): TE0800 no ELF64 little-endian file, TE0801 a header that is not all there or
  // contradicts itself, TE0802 a section outside the file, TE0803 a name outside its table.
  static Result<Elf> open(Bytes bytes, std::string_view where);

  const ElfHeader& header() const { return header_; }
  Bytes bytes() const { return bytes_; }
  std::uint32_t section_count() const { return header_.section_count; }
  // Precondition: index < section_count().
  ElfSection section(std::uint32_t index) const;
  // The first of that name.
  std::optional<ElfSection> find(std::string_view name) const;

  // Calls `visit` for each symbol of `table` (a section of type SHT_SYMTAB) after the null symbol, until it returns
  // false. Error: TE0804 (entries of another size, a name outside the table).
  Status symbols(const ElfSection& table, const std::function<bool(const ElfSymbol&)>& visit) const;
  // Calls `visit` for each note of `section`, until it returns false. Error: TE0805 (a note outside the section).
  Status notes(const ElfSection& section, const std::function<bool(const ElfNote&)>& visit) const;

 private:
  Elf() = default;
  ElfSection raw_section(std::uint32_t index) const;
  Bytes bytes_;
  std::string where_;
  ElfHeader header_;
  Bytes names_;
};

// The bytes that an ELF file needs by its headers: the end of its last header table, section or segment table. `bytes`
// are its beginning; where they end before the header tables do, the end of these tables, so that a second call with so
// many bytes gives the answer. Nothing where the header is none of ELF64, or its sizes wrap.
std::optional<std::uint64_t> elf_extent(Bytes bytes);

}  // namespace tetrad::binary
