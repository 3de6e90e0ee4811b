#include "binary/cubin/scan.hpp"

#include <algorithm>
#include <vector>

namespace tetrad::binary {
namespace {

constexpr std::uint64_t kInstructionBytes = 16;
constexpr std::uint32_t kOperations = 4096;  // bits 0 to 11
constexpr std::uint32_t kFormMask = 0xe00;   // how the operands are given
constexpr std::uint32_t kImmediateB = 0x800;
constexpr std::uint32_t kImmediateC = 0x400;
constexpr std::uint32_t kMoveWide = 0x402, kMoveWideUniform = 0x482;  // 64 bits from bit 24 on, sm_100 and newer
constexpr std::uint32_t kLop3 = 0x812, kMultiply = 0x824;

struct Pattern {
  SassClass what;
  std::uint32_t operation_mask, operation;
  std::uint64_t low_mask, low, high_mask, high;
};

constexpr Pattern kPatterns[] = {
#define TETRAD_SASS(WHAT, ...) {SassClass::WHAT, __VA_ARGS__},
#include "binary/cubin/opcodes.def"
#undef TETRAD_SASS
};
constexpr std::size_t kPatternCount = std::size(kPatterns);

// What cuda_fp4.h's own arithmetic leaves in a function, where the target has no instruction for it. The bounds of
// E2M1 in binary64, which nothing else needs together: 0.25 (half the least number above 0), 6, and 1 (or the number
// below it). Reading: fields of binary16 after a shift by 12. Compiled from the header of CUDA 13.0 for sm_80 to
// sm_121; E2M3, E3M2, E4M3 and E5M2 leave other constants (tests/data/binary/cubin).
enum Trace : std::uint32_t {
  kNone = 0,
  kQuarter = 1,
  kSix = 2,
  kOne = 4,
  kExponent = 8,
  kSign = 16,
  kShift = 32,
  kField = 64,
};
constexpr std::uint64_t kOrOfAnd = 0xf8;   // LOP3's table of a | (b & c)
constexpr std::size_t kUnpackWindow = 64;  // instructions: the constants of reading are common ones, so must be near
constexpr std::uint32_t kPackTraces = kQuarter | kSix | kOne;
constexpr std::uint32_t kUnpackTraces = kExponent | kSign | kShift | kField;

Trace trace_of(std::uint32_t operation, std::uint32_t immediate, std::uint64_t high) {
  switch (immediate) {
    case 0x3fd00000:
      return kQuarter;
    case 0x40180000:
      return kSix;
    case 0x3fefffff:
    case 0x3ff00000:
      return kOne;
    case 0x3800:
      return operation == kLop3 ? kNone : kExponent;
    case 0x8000:
      return operation == kLop3 && ((high >> 8) & 0xff) == kOrOfAnd ? kSign : kNone;
    case 0x1000:
      return operation == kMultiply ? kShift : kNone;
    case 0xc00:
    case 0x6000:
      return operation == kLop3 ? kField : kNone;
    default:
      return kNone;
  }
}

// For each operation: where its patterns begin and how many there are, and how an immediate is read.
struct Operation {
  std::uint8_t first = 0;
  std::uint8_t count = 0;
  enum : std::uint8_t { no, word, wide } immediate = no;
};

struct Tables {
  std::array<Operation, kOperations> operations{};
  std::vector<Pattern> patterns;
};

Tables make_tables() {
  static_assert(kPatternCount < 256);
  Tables tables;
  for (std::uint32_t op = 0; op < kOperations; ++op) {
    Operation& entry = tables.operations[op];
    const std::uint32_t form = op & kFormMask;
    entry.immediate = op == kMoveWide || op == kMoveWideUniform    ? Operation::wide
                      : form == kImmediateB || form == kImmediateC ? Operation::word
                                                                   : Operation::no;
  }
  // Patterns of one mask of the operation are either for all its forms or for one; both lists are short.
  for (std::uint32_t op = 0; op < kOperations; ++op) {
    std::vector<Pattern> mine;
    for (const Pattern& pattern : kPatterns) {
      if ((op & pattern.operation_mask) == pattern.operation) mine.push_back(pattern);
    }
    if (mine.empty()) continue;
    const auto same = [](const Pattern& a, const Pattern& b) {
      return a.what == b.what && a.operation == b.operation && a.low == b.low && a.high == b.high &&
             a.low_mask == b.low_mask && a.high_mask == b.high_mask;
    };
    auto at = std::search(tables.patterns.begin(), tables.patterns.end(), mine.begin(), mine.end(), same);
    if (at == tables.patterns.end()) {
      at = tables.patterns.insert(tables.patterns.end(), mine.begin(), mine.end());
    }
    tables.operations[op].first = static_cast<std::uint8_t>(at - tables.patterns.begin());
    tables.operations[op].count = static_cast<std::uint8_t>(mine.size());
  }
  return tables;
}

const Tables& tables() {
  static const Tables made = make_tables();
  return made;
}

}  // namespace

CodeScan scan_code(Bytes code) {
  const Tables& known = tables();
  CodeScan scan;
  std::uint32_t traces = 0;
  std::size_t window_begin = 0;  // of the traces of reading that `traces` holds
  const auto found = [&](Trace trace, std::size_t at) {
    if (trace == kNone) return;
    if ((trace & kUnpackTraces) != 0 && !scan.software_fp4_unpack) {
      if (at - window_begin > kUnpackWindow) traces &= ~kUnpackTraces;
      if ((traces & kUnpackTraces) == 0) window_begin = at;
      scan.software_fp4_unpack = ((traces | trace) & kUnpackTraces) == kUnpackTraces;
    }
    traces |= trace;
  };
  const std::size_t count = code.size() / kInstructionBytes;
  const std::byte* at = code.data();
  for (std::size_t i = 0; i < count; ++i, at += kInstructionBytes) {
    std::uint64_t low = 0;
    std::memcpy(&low, at, sizeof low);
    const std::uint32_t op = static_cast<std::uint32_t>(low) & (kOperations - 1);
    const Operation entry = known.operations[op];
    if ((entry.count | entry.immediate) == 0) continue;
    std::uint64_t high = 0;
    std::memcpy(&high, at + sizeof low, sizeof high);
    for (std::uint32_t k = 0; k < entry.count; ++k) {
      const Pattern& pattern = known.patterns[entry.first + k];
      if ((low & pattern.low_mask) == pattern.low && (high & pattern.high_mask) == pattern.high) {
        ++scan.counts.of[static_cast<std::size_t>(pattern.what)];
        break;
      }
    }
    if (entry.immediate == Operation::word) {
      found(trace_of(op, static_cast<std::uint32_t>(low >> 32), high), i);
    } else if (entry.immediate == Operation::wide) {
      // The upper half of the 64 bits. Bounds are compared as "at or above x plus 1": the lower half does not matter.
      found(trace_of(op, static_cast<std::uint32_t>((low >> 56) | (high << 8)), high), i);
    }
  }
  scan.counts.instructions = count;
  scan.software_fp4_pack = (traces & kPackTraces) == kPackTraces;
  return scan;
}

}  // namespace tetrad::binary
