#include "binary/fatbin.hpp"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>

namespace tetrad::binary {
namespace {

constexpr std::uint64_t kContainerHeader = 16;
constexpr std::uint64_t kEntryHeader = 64;
constexpr std::uint64_t kMaxEntryHeader = 1 << 20;
// Flags of an entry.
constexpr std::uint64_t kLz4 = 0x2000;
constexpr std::uint64_t kZstd = 0x8000;
constexpr std::uint64_t kArch = 0x100000;    // suffix a; CUDA 12.9 on
constexpr std::uint64_t kFamily = 0x200000;  // suffix f
// What a packed stream can honestly grow by: LZ4 at most 255 bytes from one; zstd has no such bound, code stays far
// below.
constexpr std::uint64_t kMaxRatio = 1000;
constexpr std::uint64_t kFreeSize = 1 << 20;

template <class T>
T field(Bytes header, std::uint64_t offset) {
  return load<T>(header, offset).value_or(T{});
}

std::optional<Target> target_of(std::uint16_t kind, std::uint32_t arch, std::uint64_t flags) {
  if (arch < 10 || arch > 999) return std::nullopt;
  const bool ptx = kind == 1;
  const std::string text = fmt::format("{}{}{}", ptx ? "compute_" : "", arch,
                                       (flags & kArch) != 0     ? "a"
                                       : (flags & kFamily) != 0 ? "f"
                                                                : "");
  Result<Target> target = parse_target(text);
  if (!target) return std::nullopt;
  return *target;
}

std::string at(std::string_view where, std::uint64_t offset) { return fmt::format("{}: byte {}", where, offset); }

}  // namespace

bool looks_like_fatbin(Bytes bytes) {
  return bytes.size() >= kContainerHeader && as_text(bytes.first(4)) == kFatbinMagic &&
         field<std::uint16_t>(bytes, 4) == 1 && field<std::uint16_t>(bytes, 6) >= kContainerHeader;
}

Status read_fatbin(Window& window, std::string_view where,
                   const std::function<void(const FatbinEntry&, Bytes payload)>& visit) {
  const std::uint64_t start = window.position();
  const Result<Bytes> head = window.peek(kContainerHeader);
  if (!head) return head.error();
  if (!looks_like_fatbin(*head)) return refuse("TE0807", "not a fat binary", at(where, start), "its magic number");
  const std::uint64_t header = field<std::uint16_t>(*head, 6);
  const auto size = field<std::uint64_t>(*head, 8);
  if (Status passed = window.skip(header); !passed) return passed;
  std::uint64_t left = size;
  while (left > 0) {
    FatbinEntry entry;
    entry.offset = window.position();
    if (left < kEntryHeader) {
      return refuse("TE0807", "a fat binary's size leaves no room for an entry's header", at(where, entry.offset),
                    fmt::format("{} B", kEntryHeader), fmt::format("{} B left of {} B", left, size));
    }
    const Result<Bytes> fixed = window.peek(kEntryHeader);
    if (!fixed) return fixed.error();
    if (fixed->size() < kEntryHeader) {
      return refuse("TE0806", "a fat binary ends inside an entry's header", at(where, entry.offset),
                    fmt::format("{} B more", left), fmt::format("{} B", fixed->size()));
    }
    entry.kind = field<std::uint16_t>(*fixed, 0);
    const std::uint64_t entry_header = field<std::uint32_t>(*fixed, 4);
    entry.stored = field<std::uint64_t>(*fixed, 8);
    const auto flags = field<std::uint64_t>(*fixed, 40);
    entry.target = target_of(entry.kind, field<std::uint32_t>(*fixed, 28), flags);
    if ((flags & (kLz4 | kZstd)) != 0) {
      entry.packing = (flags & kZstd) != 0 ? ImagePacking::zstd : ImagePacking::lz4;
      entry.packed = field<std::uint32_t>(*fixed, 16);
      entry.unpacked = field<std::uint64_t>(*fixed, 56);
    }
    const std::uint64_t name_at = field<std::uint32_t>(*fixed, 32);
    const std::uint64_t name_size = field<std::uint32_t>(*fixed, 36);
    if (entry_header < kEntryHeader || entry_header > kMaxEntryHeader || entry_header > left ||
        entry.stored > left - entry_header) {
      return refuse("TE0807", "an entry reaches beyond its fat binary", at(where, entry.offset),
                    fmt::format("{} B header, {} B image", entry_header, entry.stored), fmt::format("{} B left", left));
    }
    if (entry.packed > entry.stored) {
      return refuse("TE0807", "a packed image is larger than its place", at(where, entry.offset),
                    fmt::format("{} B", entry.packed), fmt::format("{} B", entry.stored));
    }
    if (entry.stored > kMaxStored) {
      return refuse("TE0808", "an image is too large", at(where, entry.offset), fmt::format("at most {} B", kMaxStored),
                    fmt::format("{} B", entry.stored));
    }
    const std::uint64_t whole = entry_header + entry.stored;
    const Result<Bytes> bytes = window.peek(static_cast<std::size_t>(whole));
    if (!bytes) return bytes.error();
    if (bytes->size() < whole) {
      return refuse("TE0806", "the file ends inside a fat binary", at(where, entry.offset), fmt::format("{} B", whole),
                    fmt::format("{} B", bytes->size()));
    }
    if (name_size > 0) {
      if (const std::optional<Bytes> name =
              slice(bytes->first(static_cast<std::size_t>(entry_header)), name_at, name_size)) {
        const std::string_view text = as_text(*name);
        entry.source = text.substr(0, text.find('\0'));
      }
    }
    visit(entry, bytes->subspan(static_cast<std::size_t>(entry_header)));
    if (Status passed = window.skip(whole); !passed) return passed;
    left -= whole;
  }
  return ok();
}

Result<Unpacked> unpack(const FatbinEntry& entry, Bytes payload, std::string_view where) {
  Unpacked out;
  if (entry.packing == ImagePacking::none) {
    out.bytes = payload;
    return out;
  }
  if (entry.unpacked > kMaxUnpacked || entry.unpacked > kFreeSize + kMaxRatio * entry.packed) {
    return refuse("TE0808", "an unpacked image would be too large", at(where, entry.offset),
                  fmt::format("at most {} B", std::min(kMaxUnpacked, kFreeSize + kMaxRatio * entry.packed)),
                  fmt::format("{} B from {} B", entry.unpacked, entry.packed));
  }
  const std::optional<Bytes> packed = slice(payload, 0, entry.packed);
  const auto size = static_cast<std::size_t>(entry.unpacked);
  out.owned = std::make_unique_for_overwrite<std::byte[]>(size);
  std::uint64_t got = 0;
  std::string problem = "the packed bytes are damaged";
  if (packed && entry.packing == ImagePacking::zstd) {
    const std::size_t done = ZSTD_decompress(out.owned.get(), size, packed->data(), packed->size());
    if (ZSTD_isError(done) != 0) {
      problem = ZSTD_getErrorName(done);
    } else {
      got = done;
    }
  } else if (packed) {
    const int done =
        LZ4_decompress_safe(reinterpret_cast<const char*>(packed->data()), reinterpret_cast<char*>(out.owned.get()),
                            static_cast<int>(packed->size()), static_cast<int>(size));
    if (done > 0) got = static_cast<std::uint64_t>(done);
  }
  if (got != entry.unpacked || got == 0) {
    Error error = refuse("TE0809", "a packed image cannot be unpacked", at(where, entry.offset),
                         fmt::format("{} B", entry.unpacked), fmt::format("{} B", got));
    if (got == 0) error.causes.push_back(problem);
    return error;
  }
  out.bytes = {out.owned.get(), size};
  return out;
}

}  // namespace tetrad::binary
