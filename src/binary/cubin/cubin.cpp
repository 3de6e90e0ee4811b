#include "binary/cubin/cubin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "binary/cubin/identity.hpp"
#include "binary/cubin/scan.hpp"

namespace tetrad {
namespace {

using binary::Bytes;
using binary::Elf;
using binary::ElfSection;
using binary::load;
using binary::refuse;

constexpr std::uint16_t kRelocatable = 1;
constexpr std::uint32_t kProgramBits = 1;  // SHT_PROGBITS
constexpr std::uint8_t kEntry = 0x10;      // STO_CUDA_ENTRY
constexpr int kFirstDecodedMajor = 7;      // 16 bytes an instruction
// Attributes of .nv.info: format, number, then two bytes of value or of length. The names are cuobjdump's.
constexpr std::uint8_t kWithLength = 4;        // EIFMT_SVAL
constexpr std::uint8_t kMaxThreads = 0x05;     // EIATTR_MAX_THREADS: x, y, z
constexpr std::uint8_t kFixedThreads = 0x10;   // EIATTR_REQNTID: x, y, z
constexpr std::uint8_t kFrameSize = 0x11;      // EIATTR_FRAME_SIZE: symbol, bytes
constexpr std::uint8_t kMinStackSize = 0x12;   // EIATTR_MIN_STACK_SIZE: symbol, bytes
constexpr std::uint8_t kRegisterCount = 0x2f;  // EIATTR_REGCOUNT: symbol, number
constexpr int kKeepsShared = 9;
constexpr std::uint64_t kKept = 1024;
constexpr std::uint64_t kMaxSize = 0x7fffffffffffffff;
constexpr std::string_view kText = ".text.", kShared = ".nv.shared.", kInfo = ".nv.info.";

template <class Visit>
void attributes(Bytes data, Visit visit) {
  std::uint64_t at = 0;
  while (const auto word = load<std::uint32_t>(data, at)) {
    const auto attribute = static_cast<std::uint8_t>(*word >> 8);
    const bool longer = (*word & 0xff) == kWithLength;
    const std::uint64_t size = longer ? *word >> 16 : 2;
    const auto value = binary::slice(data, at + (longer ? 4 : 2), size);
    if (!value) return;
    visit(attribute, *value);
    at += longer ? 4 + size : 4;
  }
}

struct Functions {
  std::unordered_map<std::uint32_t, std::size_t> by_section;  // index of a code section -> kernel
  std::unordered_map<std::uint32_t, std::size_t> by_symbol;   // index of a symbol -> kernel
  std::unordered_map<std::string_view, std::size_t> by_name;
};

std::int32_t narrowed(std::uint64_t value) {
  return static_cast<std::int32_t>(std::min<std::uint64_t>(value, 0x7fffffff));
}

Status find_functions(const Elf& elf, CubinReport* report, Functions* functions) {
  std::uint64_t named = 0;
  std::uint64_t coded = 0;
  for (std::uint32_t i = 0; i < elf.section_count(); ++i) {
    const ElfSection section = elf.section(i);
    if (section.type != kProgramBits || !section.name.starts_with(kText)) continue;
    named += section.name.size();
    coded += section.data.size();
    // Sections that share bytes would make a small file cost much.
    if (named > elf.bytes().size() || coded > elf.bytes().size()) {
      return refuse("TE0823", "code sections overlap", std::string(section.name.substr(0, 80)),
                    fmt::format("{} bytes of code and names at most", elf.bytes().size()),
                    fmt::format("{}", std::max(named, coded)));
    }
    KernelReport kernel;
    kernel.name = std::string(section.name.substr(kText.size()));
    kernel.code_bytes = section.data.size();
    kernel.entry = false;
    if (report->decoded) {
      const binary::CodeScan scan = binary::scan_code(section.data);
      kernel.counts = scan.counts;
      kernel.software_fp4_pack = scan.software_fp4_pack;
      kernel.software_fp4_unpack = scan.software_fp4_unpack;
    }
    functions->by_section[i] = report->kernels.size();
    functions->by_name.emplace(section.name.substr(kText.size()), report->kernels.size());
    report->kernels.push_back(std::move(kernel));
  }
  const auto symbols = elf.find(".symtab");
  if (!symbols) return ok();
  std::uint32_t index = 0;
  return elf.symbols(*symbols, [&](const binary::ElfSymbol& symbol) {
    ++index;
    const auto at = functions->by_section.find(symbol.section);
    if (at == functions->by_section.end() || symbol.type != binary::kSymbolFunction) return true;
    KernelReport& kernel = report->kernels[at->second];
    // A section may hold further functions that the kernel calls; its own has its name.
    if (symbol.name != kernel.name) return true;
    functions->by_symbol[index] = at->second;
    kernel.entry = (symbol.other & kEntry) != 0;
    return true;
  });
}

void read_attributes(const Elf& elf, const Functions& functions, CubinReport* report) {
  for (std::uint32_t i = 0; i < elf.section_count(); ++i) {
    const ElfSection section = elf.section(i);
    if (section.name == ".nv.info") {
      attributes(section.data, [&](std::uint8_t attribute, Bytes value) {
        const auto symbol = load<std::uint32_t>(value, 0);
        const auto number = load<std::uint32_t>(value, 4);
        if (!symbol || !number) return;
        const auto at = functions.by_symbol.find(*symbol);
        if (at == functions.by_symbol.end()) return;
        KernelReport& kernel = report->kernels[at->second];
        if (attribute == kRegisterCount) kernel.registers = narrowed(*number);
        if (attribute == kFrameSize) kernel.frame = *number;
        if (attribute == kMinStackSize) kernel.stack = *number;
      });
    } else if (section.name.starts_with(kInfo)) {
      const auto at = functions.by_name.find(section.name.substr(kInfo.size()));
      if (at == functions.by_name.end()) continue;
      attributes(section.data, [&](std::uint8_t attribute, Bytes value) {
        if (attribute != kMaxThreads && attribute != kFixedThreads) return;
        std::uint64_t threads = 1;
        for (std::uint64_t axis = 0; axis < 3; ++axis) {
          threads *= std::min<std::uint32_t>(load<std::uint32_t>(value, 4 * axis).value_or(1), 1u << 20);
        }
        report->kernels[at->second].max_threads = narrowed(threads);
      });
    } else if (section.name.starts_with(kShared)) {
      const auto at = functions.by_name.find(section.name.substr(kShared.size()));
      if (at == functions.by_name.end()) continue;
      // From sm_90 on a linked size includes what CUDA keeps in each block; ptxas -v does not count that.
      const bool keeps = report->target.cc.major >= kKeepsShared && !report->relocatable;
      const std::uint64_t kept = keeps && section.size >= kKept ? kKept : 0;
      report->kernels[at->second].static_shared = static_cast<std::int64_t>((section.size - kept) & kMaxSize);
    }
  }
}

std::string counted(const SassCounts& counts, std::initializer_list<SassClass> classes) {
  std::string text;
  for (const SassClass what : classes) {
    if (counts[what] != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[what], name(what));
  }
  return text;
}

// Adds what is in a list of classes: nothing, or ", 3 LDL, 2 STL".
std::string also(const std::string& text) { return text.empty() ? text : ", " + text; }

void judge(KernelReport* kernel) {
  const SassCounts& c = kernel->counts;
  using S = SassClass;
  const std::string codes = counted(c, {S::fp4_unpack, S::nibble_mask});
  if (const std::string fp4 = counted(c, {S::omma, S::utcomma}); !fp4.empty()) {
    kernel->verdict = KernelClass::native_fp4;
    kernel->why = fp4;
  } else if (const std::string fp8 = counted(c, {S::qmma, S::qgmma, S::utcqmma}); !fp8.empty()) {
    kernel->verdict = KernelClass::fp8;
    kernel->why = fp8 + also(codes) + ": 4-bit operands run at the rate of FP8 here";
  } else if (const std::string half = counted(c, {S::hmma, S::hgmma, S::utchmma}); !half.empty()) {
    const bool unpacks = !codes.empty() || kernel->software_fp4_unpack;
    kernel->verdict = unpacks ? KernelClass::dequantised : KernelClass::half;
    kernel->why = half + also(codes);
    if (kernel->software_fp4_unpack) kernel->why += ", E2M1 read by ordinary arithmetic";
  } else if (const std::string whole = counted(c, {S::imma, S::igmma, S::utcimma, S::bmma, S::bgmma}); !whole.empty()) {
    kernel->verdict = KernelClass::integer;
    kernel->why = whole + also(codes);
  } else if (const std::string wide = counted(c, {S::dmma}); !wide.empty()) {
    kernel->verdict = KernelClass::fp64;
    kernel->why = wide;
  } else {
    kernel->verdict = KernelClass::none;
    kernel->why = "no tensor instruction" + also(counted(c, {S::fp4_pack, S::fp4_unpack, S::nibble_mask}));
    if (kernel->software_fp4_unpack) kernel->why += ", E2M1 read by ordinary arithmetic";
  }
  if (kernel->software_fp4_pack) kernel->why += ", E2M1 made by ordinary arithmetic instead of F2FP";
}

}  // namespace

std::string_view name(SassClass what) {
  static constexpr std::array<std::string_view, kSassClasses> kNames = {"OMMA",
                                                                        "UTCOMMA",
                                                                        "QMMA",
                                                                        "QGMMA",
                                                                        "UTCQMMA",
                                                                        "HMMA",
                                                                        "HGMMA",
                                                                        "UTCHMMA",
                                                                        "IMMA",
                                                                        "IGMMA",
                                                                        "UTCIMMA",
                                                                        "BMMA",
                                                                        "BGMMA",
                                                                        "DMMA",
                                                                        "F2FP to E2M1",
                                                                        "F2FP from E2M1",
                                                                        "F2FP of FP6",
                                                                        "F2FP of FP8",
                                                                        "LOP3 of 4-bit codes",
                                                                        "LDL",
                                                                        "STL",
                                                                        "LDG",
                                                                        "STG",
                                                                        "LDS",
                                                                        "STS",
                                                                        "LDSM",
                                                                        "LDGSTS",
                                                                        "UTMALDG",
                                                                        "UTMASTG",
                                                                        "UBLKCP",
                                                                        "LDTM",
                                                                        "STTM"};
  return kNames[static_cast<std::size_t>(what)];
}

std::string_view name(KernelClass what) {
  switch (what) {
    case KernelClass::native_fp4:
      return "native FP4";
    case KernelClass::fp8:
      return "FP8 rate";
    case KernelClass::dequantised:
      return "dequantised";
    case KernelClass::half:
      return "16-bit";
    case KernelClass::integer:
      return "integer";
    case KernelClass::fp64:
      return "FP64";
    case KernelClass::none:
      break;
  }
  return "none";
}

SassCounts& SassCounts::operator+=(const SassCounts& other) {
  for (std::size_t i = 0; i < kSassClasses; ++i) of[i] += other.of[i];
  instructions += other.instructions;
  return *this;
}

Result<CubinReport> read_cubin(std::span<const std::byte> image) {
  if (!binary::looks_like_cubin(image)) {
    return refuse("TE0821", "not a cubin", "", "an ELF64 file for the machine EM_CUDA",
                  fmt::format("{} bytes of something else", image.size()));
  }
  Result<Elf> elf = Elf::open(image, "cubin");
  if (!elf) return std::move(elf.error());
  Result<binary::CubinIdentity> identity = binary::identify(*elf);
  if (!identity) return std::move(identity.error());

  CubinReport report;
  report.target = identity->target;
  report.target_from = std::move(identity->target_from);
  report.target_sure = identity->target_sure;
  report.elf_flags = elf->header().flags;
  report.tool = std::move(identity->tool);
  report.toolkit = std::move(identity->toolkit);
  report.command = std::move(identity->command);
  report.relocatable = elf->header().type == kRelocatable;
  report.decoded = report.target.cc.major >= kFirstDecodedMajor;
  Functions functions;
  Status found = find_functions(*elf, &report, &functions);
  if (!found) return std::move(found.error());
  read_attributes(*elf, functions, &report);
  for (KernelReport& kernel : report.kernels) {
    judge(&kernel);
    report.total += kernel.counts;
    report.code_bytes += kernel.code_bytes;
  }
  return report;
}

}  // namespace tetrad
