#include "binary/archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tetrad::binary {
namespace {

constexpr std::string_view kMagic = "!<arch>\n";
constexpr std::string_view kThin = "!<thin>\n";
constexpr std::size_t kHeader = 60;
constexpr std::uint64_t kMaxNames = 16 << 20;
constexpr std::uint64_t kMaxName = 4096;

std::optional<std::uint64_t> number(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool looks_like_archive(Bytes bytes) { return as_text(bytes).starts_with(kMagic) || as_text(bytes).starts_with(kThin); }

Status read_archive(Window& window, std::string_view where,
                    const std::function<Status(const std::string& member, Window& data, std::uint64_t size)>& visit) {
  const auto damaged = [&](std::string what, std::string need, std::string have) {
    return refuse("TE0812", std::move(what), fmt::format("{}: byte {}", where, window.position()), std::move(need),
                  std::move(have));
  };
  const Result<Bytes> magic = window.peek(kMagic.size());
  if (!magic) return magic.error();
  if (as_text(*magic) != kMagic) {
    return damaged("an archive that holds no code", "members inside the archive",
                   as_text(*magic) == kThin ? "a thin archive: names of files" : "other bytes");
  }
  if (Status passed = window.skip(kMagic.size()); !passed) return passed;
  std::string names;
  for (;;) {
    const Result<Bytes> head = window.peek(kHeader);
    if (!head) return head.error();
    if (head->empty() || (head->size() == 1 && as_text(*head) == "\n")) return ok();
    if (head->size() < kHeader || as_text(head->subspan(58, 2)) != "`\n") {
      return damaged("an archive ends inside a member's header", fmt::format("{} B", kHeader),
                     fmt::format("{} B", head->size()));
    }
    std::string_view raw = as_text(head->first(16));
    const std::optional<std::uint64_t> size = number(as_text(head->subspan(48, 10)));
    if (!size) return damaged("a member has no size", "decimal digits", "other characters");
    std::string name(raw.substr(0, raw.find_last_not_of(' ') + 1));
    if (Status passed = window.skip(kHeader); !passed) return passed;

    std::uint64_t left = *size;
    const auto cut = [&] {
      return damaged("an archive ends inside a member", fmt::format("{} B more", left), "the end of the file");
    };
    if (name.starts_with("#1/")) {
      const std::optional<std::uint64_t> length = number(std::string_view(name).substr(3));
      if (!length || *length > std::min(left, kMaxName)) {
        return damaged("a member's name is too long", fmt::format("at most {} B", std::min(left, kMaxName)), name);
      }
      const Result<Bytes> text = window.peek(static_cast<std::size_t>(*length));
      if (!text) return text.error();
      if (text->size() < *length) return cut();
      name = as_text(*text);
      name.resize(std::min(name.find('\0'), name.size()));
      if (Status passed = window.skip(*length); !passed) return passed;
      left -= *length;
    } else if (name.size() > 1 && name[0] == '/' && name[1] >= '0' && name[1] <= '9') {
      const std::optional<std::uint64_t> at = number(std::string_view(name).substr(1));
      if (!at || *at >= names.size())
        return damaged("a member's name is missing", "a place in the table of names", name);
      name = names.substr(static_cast<std::size_t>(*at), static_cast<std::size_t>(kMaxName));
      name.resize(std::min(name.find_first_of("\n"), name.size()));
      if (name.ends_with('/')) name.pop_back();
    } else if (name.size() > 1 && name.ends_with('/') && name != "//" && name != "/SYM64/") {
      name.pop_back();
    }
    const bool odd = *size % 2 == 1;
    if (name == "//") {
      if (left > kMaxNames)
        return damaged("a table of names is too long", fmt::format("at most {} B", kMaxNames),
                       fmt::format("{} B", left));
      const Result<Bytes> text = window.peek(static_cast<std::size_t>(left));
      if (!text) return text.error();
      if (text->size() < left) return cut();
      names = as_text(*text);
    } else if (name != "/" && name != "/SYM64/" && !name.starts_with("__.SYMDEF")) {
      Window member([&](std::span<std::byte> into) -> Result<std::size_t> {
        const std::uint64_t want = std::min<std::uint64_t>(into.size(), left);
        const Result<Bytes> bytes = window.peek(static_cast<std::size_t>(want));
        if (!bytes) return bytes.error();
        if (want > 0 && bytes->empty()) return Result<std::size_t>(cut());
        const std::size_t got = bytes->size();
        if (got > 0) std::memcpy(into.data(), bytes->data(), got);
        if (Status passed = window.skip(got); !passed) return passed.error();
        left -= got;
        return got;
      });
      if (Status visited = visit(name, member, left); !visited) return visited;
    }
    const std::uint64_t before = window.position();
    if (Status passed = window.skip(left); !passed) return passed;
    if (window.position() - before < left) return cut();
    if (odd) {
      if (Status passed = window.skip(1); !passed) return passed;
    }
  }
}

}  // namespace tetrad::binary
