#include "binary/ptx.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tetrad::binary {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

// Passes blanks and comments.
std::string_view skip_comments(std::string_view text) {
  for (;;) {
    const std::size_t start = text.find_first_not_of(kBlank);
    if (start == std::string_view::npos) return {};
    text.remove_prefix(start);
    std::string_view end;
    if (text.starts_with("//")) {
      end = "\n";
    } else if (text.starts_with("/*")) {
      end = "*/";
    } else {
      return text;
    }
    const std::size_t at = text.find(end, 2);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + end.size());
  }
}

// The word after `directive`, where the text starts with it; empty where not. Passes both.
std::string_view word_after(std::string_view& text, std::string_view directive) {
  if (!text.starts_with(directive)) return {};
  std::string_view rest = text.substr(directive.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r\n,;"));
  text = rest.substr(word.size());
  return word;
}

}  // namespace

bool looks_like_ptx(Bytes bytes) {
  constexpr std::size_t kHead = 4096;
  std::string_view text = as_text(bytes.first(std::min(bytes.size(), kHead)));
  if (text.substr(0, 16).find('\0') != std::string_view::npos) return false;
  return skip_comments(text).starts_with(".version");
}

PtxFacts read_ptx(Bytes bytes) {
  PtxFacts facts;
  const std::string_view whole = as_text(bytes);
  std::string_view text = skip_comments(whole);
  facts.version = word_after(text, ".version").substr(0, 8);
  text = skip_comments(text);
  const std::string_view target = word_after(text, ".target");
  if (target.starts_with("sm_") && target.size() < 12) {
    if (Result<Target> found = parse_target("compute_" + std::string(target.substr(3)))) facts.target = *found;
  }
  for (std::size_t at = whole.find(".entry"); at != std::string_view::npos; at = whole.find(".entry", at + 6)) {
    const std::size_t after = at + 6;
    if (after < whole.size() && kBlank.find(whole[after]) != std::string_view::npos) ++facts.kernels;
  }
  facts.fp4 = whole.find("kind::mxf4") != std::string_view::npos;
  return facts;
}

}  // namespace tetrad::binary
