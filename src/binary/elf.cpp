#include "binary/elf.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tetrad::binary {
namespace {

constexpr std::uint64_t kSectionHeaderSize = 64;
constexpr std::uint64_t kProgramHeaderSize = 56;
constexpr std::uint64_t kSymbolSize = 24;
constexpr std::uint64_t kNoteHeaderSize = 12;
constexpr std::uint32_t kExtendedIndex = 0xffff;  // SHN_XINDEX
constexpr std::uint32_t kSectionIndices = 18;     // SHT_SYMTAB_SHNDX
constexpr std::uint64_t kClassAt = 4;
constexpr std::uint64_t kMachineAt = 18;

// A field of a header that is known to be there.
template <class T>
T field(Bytes header, std::uint64_t offset) {
  return load<T>(header, offset).value_or(T{});
}

std::uint64_t round_up_4(std::uint64_t value) { return (value + 3) / 4 * 4; }

}  // namespace

bool has_bytes(std::uint32_t type, std::uint16_t machine) {
  if (type == 0 || type == kSectionNoBits) return false;
  return machine != kMachineCuda ||
         std::find(std::begin(kSectionsOfMemory), std::end(kSectionsOfMemory), type) == std::end(kSectionsOfMemory);
}

bool looks_like_elf(Bytes bytes) {
  return bytes.size() >= 4 && as_text(bytes.first(4)) ==
                                  "\x7f"
                                  "ELF";
}

bool looks_like_cubin(Bytes bytes) {
  return bytes.size() >= kElfHeaderSize && looks_like_elf(bytes) && field<std::uint8_t>(bytes, kClassAt) == 2 &&
         field<std::uint8_t>(bytes, kClassAt + 1) == 1 && field<std::uint16_t>(bytes, kMachineAt) == kMachineCuda;
}

Result<Elf> Elf::open(Bytes bytes, std::string_view where) {
  Elf elf;
  elf.bytes_ = bytes;
  elf.where_ = where;
  if (!looks_like_elf(bytes)) {
    return refuse("TE0800", "not an ELF file", elf.where_, "7f 45 4c 46 at byte 0",
                  bytes.size() < 4 ? fmt::format("{} B", bytes.size()) : "other bytes");
  }
  if (bytes.size() < kElfHeaderSize) {
    return refuse("TE0801", "the file ends inside the ELF header", elf.where_, fmt::format("{} B", kElfHeaderSize),
                  fmt::format("{} B", bytes.size()));
  }
  const auto bits = field<std::uint8_t>(bytes, kClassAt);
  const auto order = field<std::uint8_t>(bytes, kClassAt + 1);
  if (bits != 2 || order != 1) {
    return refuse("TE0800", "an ELF file of a kind that is not read", elf.where_, "64 bits, little endian",
                  fmt::format("class {}, byte order {}", bits, order));
  }
  ElfHeader& header = elf.header_;
  header.os_abi = field<std::uint8_t>(bytes, 7);
  header.abi_version = field<std::uint8_t>(bytes, 8);
  header.type = field<std::uint16_t>(bytes, 16);
  header.machine = field<std::uint16_t>(bytes, kMachineAt);
  header.program_offset = field<std::uint64_t>(bytes, 32);
  header.section_offset = field<std::uint64_t>(bytes, 40);
  header.flags = field<std::uint32_t>(bytes, 48);
  header.program_count = field<std::uint16_t>(bytes, 56);
  header.section_count = field<std::uint16_t>(bytes, 60);
  header.names_index = field<std::uint16_t>(bytes, 62);
  const auto entry = field<std::uint16_t>(bytes, 58);
  if (header.program_offset != 0 && !slice(bytes, header.program_offset, header.program_count * kProgramHeaderSize)) {
    return refuse(
        "TE0801", "the program headers lie outside the file", elf.where_,
        fmt::format("{} headers of {} B from byte {}", header.program_count, kProgramHeaderSize, header.program_offset),
        fmt::format("{} B in all", bytes.size()));
  }
  if (header.section_offset == 0) {
    header.section_count = 0;
    return elf;
  }
  if (entry != kSectionHeaderSize) {
    return refuse("TE0801", "section headers of an unknown size", elf.where_, fmt::format("{} B", kSectionHeaderSize),
                  fmt::format("{} B", entry));
  }
  // Counts from 0xff00 on stand in the first section's header.
  if (header.section_count == 0 || header.names_index == kExtendedIndex) {
    const std::optional<Bytes> first = slice(bytes, header.section_offset, kSectionHeaderSize);
    if (!first) {
      return refuse("TE0801", "the section headers lie outside the file", elf.where_,
                    fmt::format("{} B from byte {}", kSectionHeaderSize, header.section_offset),
                    fmt::format("{} B in all", bytes.size()));
    }
    if (header.section_count == 0) {
      const auto count = field<std::uint64_t>(*first, 32);
      header.section_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 0xffffffffU));
    }
    if (header.names_index == kExtendedIndex) header.names_index = field<std::uint32_t>(*first, 40);
  }
  if (!slice(bytes, header.section_offset, header.section_count * kSectionHeaderSize)) {
    return refuse(
        "TE0801", "the section headers lie outside the file", elf.where_,
        fmt::format("{} headers of {} B from byte {}", header.section_count, kSectionHeaderSize, header.section_offset),
        fmt::format("{} B in all", bytes.size()));
  }
  if (header.section_count > 0 && header.names_index >= header.section_count) {
    return refuse("TE0801", "the section of the names does not exist", elf.where_,
                  fmt::format("an index below {}", header.section_count), fmt::format("{}", header.names_index));
  }
  for (std::uint32_t i = 0; i < header.section_count; ++i) {
    const ElfSection section = elf.raw_section(i);
    if (!has_bytes(section.type, header.machine)) continue;
    if (!slice(bytes, section.offset, section.size)) {
      return refuse("TE0802", "a section lies outside the file", fmt::format("{}: section {}", elf.where_, i),
                    fmt::format("{} B from byte {}", section.size, section.offset),
                    fmt::format("{} B in all", bytes.size()));
    }
  }
  if (header.section_count > 0) {
    elf.names_ = elf.raw_section(header.names_index).data;
    for (std::uint32_t i = 0; i < header.section_count; ++i) {
      const auto name = field<std::uint32_t>(bytes, header.section_offset + i * kSectionHeaderSize);
      if (!(name == 0 && elf.names_.empty()) && !c_string(elf.names_, name)) {
        return refuse("TE0803", "a section's name lies outside the table of names",
                      fmt::format("{}: section {}", elf.where_, i), fmt::format("a text below {}", elf.names_.size()),
                      fmt::format("{}", name));
      }
    }
  }
  return elf;
}

ElfSection Elf::raw_section(std::uint32_t index) const {
  const std::optional<Bytes> found =
      slice(bytes_, header_.section_offset + index * kSectionHeaderSize, kSectionHeaderSize);
  ElfSection out;
  out.index = index;
  if (!found) return out;
  const Bytes header = *found;
  out.type = field<std::uint32_t>(header, 4);
  out.flags = field<std::uint64_t>(header, 8);
  out.address = field<std::uint64_t>(header, 16);
  out.offset = field<std::uint64_t>(header, 24);
  out.size = field<std::uint64_t>(header, 32);
  out.link = field<std::uint32_t>(header, 40);
  out.info = field<std::uint32_t>(header, 44);
  out.entry_size = field<std::uint64_t>(header, 56);
  if (has_bytes(out.type, header_.machine)) out.data = slice(bytes_, out.offset, out.size).value_or(Bytes{});
  out.name = c_string(names_, field<std::uint32_t>(header, 0)).value_or(std::string_view{});
  return out;
}

ElfSection Elf::section(std::uint32_t index) const { return raw_section(index); }

std::optional<ElfSection> Elf::find(std::string_view name) const {
  for (std::uint32_t i = 0; i < header_.section_count; ++i) {
    ElfSection found = raw_section(i);
    if (found.name == name) return found;
  }
  return std::nullopt;
}

Status Elf::symbols(const ElfSection& table, const std::function<bool(const ElfSymbol&)>& visit) const {
  if (table.entry_size != kSymbolSize || table.size % kSymbolSize != 0 || table.link >= header_.section_count) {
    return refuse(
        "TE0804", "a symbol table of an unknown form", fmt::format("{}: {}", where_, table.name),
        fmt::format("entries of {} B with a table of names", kSymbolSize),
        fmt::format("{} B in entries of {} B, names in section {}", table.size, table.entry_size, table.link));
  }
  const Bytes names = raw_section(table.link).data;
  Bytes extended;
  for (std::uint32_t i = 0; i < header_.section_count; ++i) {
    const ElfSection section = raw_section(i);
    if (section.type == kSectionIndices && section.link == table.index) extended = section.data;
  }
  const std::uint64_t count = table.data.size() / kSymbolSize;
  for (std::uint64_t i = 1; i < count; ++i) {
    const Bytes entry = table.data.subspan(static_cast<std::size_t>(i * kSymbolSize), kSymbolSize);
    const std::optional<std::string_view> name = c_string(names, field<std::uint32_t>(entry, 0));
    if (!name) {
      return refuse("TE0804", "a symbol's name lies outside the table of names",
                    fmt::format("{}: {}, symbol {}", where_, table.name, i),
                    fmt::format("a text below {}", names.size()), fmt::format("{}", field<std::uint32_t>(entry, 0)));
    }
    ElfSymbol symbol;
    symbol.name = *name;
    const auto info = field<std::uint8_t>(entry, 4);
    symbol.type = info & 0xf;
    symbol.binding = static_cast<std::uint8_t>(info >> 4);
    symbol.other = field<std::uint8_t>(entry, 5);
    symbol.section = field<std::uint16_t>(entry, 6);
    if (symbol.section == kExtendedIndex) {
      symbol.section = load<std::uint32_t>(extended, i * 4).value_or(kExtendedIndex);
    }
    symbol.value = field<std::uint64_t>(entry, 8);
    symbol.size = field<std::uint64_t>(entry, 16);
    if (!visit(symbol)) break;
  }
  return ok();
}

Status Elf::notes(const ElfSection& section, const std::function<bool(const ElfNote&)>& visit) const {
  const Bytes all = section.data;
  std::uint64_t at = 0;
  while (all.size() - at >= kNoteHeaderSize) {
    const std::uint64_t name_size = field<std::uint32_t>(all, at);
    const std::uint64_t desc_size = field<std::uint32_t>(all, at + 4);
    const std::uint64_t name_at = at + kNoteHeaderSize;
    const std::uint64_t desc_at = name_at + round_up_4(name_size);
    const std::optional<Bytes> name = slice(all, name_at, name_size);
    const std::optional<Bytes> desc = slice(all, desc_at, desc_size);
    if (!name || !desc) {
      return refuse("TE0805", "a note lies outside its section",
                    fmt::format("{}: {}, byte {}", where_, section.name, at),
                    fmt::format("{} B of name and {} B of text", name_size, desc_size),
                    fmt::format("{} B left", all.size() - name_at));
    }
    ElfNote note;
    note.name = as_text(*name);
    note.name = note.name.substr(0, note.name.find('\0'));
    note.type = field<std::uint32_t>(all, at + 8);
    note.desc = *desc;
    if (!visit(note)) break;
    at = std::min<std::uint64_t>(desc_at + round_up_4(desc_size), all.size());
  }
  return ok();
}

std::optional<std::uint64_t> elf_extent(Bytes bytes) {
  if (bytes.size() < kElfHeaderSize || !looks_like_elf(bytes) || field<std::uint8_t>(bytes, kClassAt) != 2) {
    return std::nullopt;
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;
  const auto programs = field<std::uint64_t>(bytes, 32);
  const auto sections = field<std::uint64_t>(bytes, 40);
  std::uint64_t count = field<std::uint16_t>(bytes, 60);
  if (programs > kMost || sections > kMost) return std::nullopt;
  if (count == 0 && sections != 0) {
    // The count stands in the first section's header.
    const std::optional<Bytes> first = slice(bytes, sections, kSectionHeaderSize);
    if (!first) return sections + kSectionHeaderSize;
    count = std::min<std::uint64_t>(field<std::uint64_t>(*first, 32), 0xffffffffU);
  }
  std::uint64_t end = kElfHeaderSize;
  if (programs != 0) end = std::max(end, programs + field<std::uint16_t>(bytes, 56) * kProgramHeaderSize);
  if (sections != 0) end = std::max(end, sections + count * kSectionHeaderSize);
  if (sections == 0 || end > bytes.size()) return end;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bytes header = bytes.subspan(static_cast<std::size_t>(sections + i * kSectionHeaderSize), kSectionHeaderSize);
    const auto type = field<std::uint32_t>(header, 4);
    const auto offset = field<std::uint64_t>(header, 24);
    const auto size = field<std::uint64_t>(header, 32);
    if (!has_bytes(type, field<std::uint16_t>(bytes, kMachineAt))) continue;
    if (offset > kMost || size > kMost) return std::nullopt;
    end = std::max(end, offset + size);
  }
  return end;
}

}  // namespace tetrad::binary
