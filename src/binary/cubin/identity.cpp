#include "binary/cubin/identity.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace tetrad::binary {
namespace {

constexpr std::uint64_t kVersionOffset = 20;  // e_version: the toolkit in files of ABI 7
constexpr std::uint32_t kNewFlags = 24;       // a byte that files of ABI 7 leave 0
constexpr std::uint32_t kOldAccelerated = 1u << 11;
constexpr std::uint32_t kNewAccelerated = 1u << 3;
constexpr std::uint8_t kCompatAccelerator = 9;  // EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET
constexpr std::uint8_t kCompatIsaClass = 2;     // EICOMPAT_ATTR_ISA_CLASS
constexpr std::uint8_t kIsaClassFamily = 2;
constexpr std::uint8_t kFormatBytes = 4;  // an attribute with a length and so many bytes
constexpr std::uint32_t kNoteToolkit = 2000;
constexpr int kFirstFamilyMajor = 10;
constexpr std::size_t kMaxCommand = 4096;  // longer arguments are cut

struct Compat {
  std::optional<std::uint8_t> accelerator, isa_class;
};

// Attributes are 4 bytes each, format, attribute, value; those with a length carry it in the value.
Compat compat_of(Bytes data) {
  Compat compat;
  std::uint64_t at = 0;
  while (const auto word = load<std::uint32_t>(data, at)) {
    const auto attribute = static_cast<std::uint8_t>(*word >> 8);
    const auto value = static_cast<std::uint8_t>(*word >> 16);
    if (attribute == kCompatAccelerator) compat.accelerator = value;
    if (attribute == kCompatIsaClass) compat.isa_class = value;
    at += 4 + ((*word & 0xff) == kFormatBytes ? *word >> 16 : 0);
  }
  return compat;
}

// desc of .note.nv.tkinfo: a format number and the offsets of five texts, then the texts.
void read_toolkit(Bytes desc, CubinIdentity* identity) {
  constexpr std::uint64_t kTool = 8, kVersion = 12, kArguments = 20, kTexts = 24;
  const auto text = [&](std::uint64_t field) -> std::string_view {
    const auto offset = load<std::uint32_t>(desc, field);
    if (!offset) return {};
    return c_string(desc, kTexts + *offset).value_or(std::string_view{}).substr(0, kMaxCommand);
  };
  identity->tool = std::string(text(kTool));
  identity->command = std::string(text(kArguments));
  while (!identity->command.empty() && identity->command.back() == ' ') identity->command.pop_back();
  // "Cuda compilation tools, release 13.0, V13.0.88"
  const std::string_view version = text(kVersion);
  const std::size_t at = version.rfind(", V");
  identity->toolkit = std::string(at == std::string_view::npos ? version : version.substr(at + 3));
}

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

std::optional<Target> target_of_command(std::string_view command) {
  std::optional<Target> found;
  for (const std::string_view prefix : {std::string_view("sm_"), std::string_view("compute_")}) {
    for (std::size_t at = command.find(prefix); at != std::string_view::npos; at = command.find(prefix, at + 1)) {
      if (at != 0 && is_word(command[at - 1])) continue;
      std::size_t end = at + prefix.size();
      while (end < command.size() && is_word(command[end])) ++end;
      Result<Target> target =
          parse_target(fmt::format("sm_{}", command.substr(at + prefix.size(), end - at - prefix.size())));
      if (!target) continue;
      if (found && !(*found == *target)) return std::nullopt;
      found = *target;
    }
    if (found) return found;
  }
  return found;
}

Result<CubinIdentity> identify(const Elf& elf) {
  const std::uint32_t flags = elf.header().flags;
  const bool current = flags >> kNewFlags != 0;
  const std::uint32_t number = current ? (flags >> 8) & 0xffff : flags & 0xff;
  CubinIdentity identity;
  if (const auto section = elf.find(".note.nv.tkinfo")) {
    Status read = elf.notes(*section, [&](const ElfNote& note) {
      if (note.type != kNoteToolkit) return true;
      read_toolkit(note.desc, &identity);
      return false;
    });
    if (!read) return std::move(read.error());
  }
  if (!current && identity.toolkit.empty()) {
    const std::uint32_t version = load<std::uint32_t>(elf.bytes(), kVersionOffset).value_or(0);
    if (version > 1) identity.toolkit = fmt::format("{}.{}", version / 10, version % 10);
  }

  const std::string plain = fmt::format("sm_{}", number);
  Result<Target> target = parse_target(plain);
  if (!target)
    return refuse("TE0822", "a cubin for a target that does not exist", "ELF flags", "sm_50 and newer", plain);
  identity.target = *target;
  identity.target_from = "ELF flags";
  // The arguments say it all where they fit the flags; a linker's may not.
  const std::optional<Target> told = target_of_command(identity.command);
  if (told && told->cc == identity.target.cc) {
    identity.target = *told;
    identity.target_from = fmt::format("{} arguments", identity.tool.empty() ? "the tool's" : identity.tool);
    if (told->kind != Target::Kind::plain) return identity;
  }
  Compat compat;
  if (const auto section = elf.find(".nv.compat")) compat = compat_of(section->data);
  if ((flags & (current ? kNewAccelerated : kOldAccelerated)) != 0) {
    identity.target.kind = Target::Kind::arch;
    identity.target_from = "ELF flags";
  } else if (compat.accelerator == 1) {
    identity.target.kind = Target::Kind::arch;
    identity.target_from = "the accelerator attribute";
  } else if (identity.target.cc.major >= kFirstFamilyMajor && !told) {
    if (compat.isa_class == kIsaClassFamily) {
      identity.target.kind = Target::Kind::family;
      identity.target_from = "the class of its instructions";
    } else {
      identity.target_sure = false;
    }
  }
  return identity;
}

}  // namespace tetrad::binary
