#include "tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "unicode.hpp"

namespace tetrad::embed {
namespace {

// A longer word is [UNK] as a whole (max_input_chars_per_word of BERT's WordPiece).
constexpr std::size_t kMaxWordCharacters = 100;
constexpr char32_t kReplacement = 0xFFFD;

bool in(std::span<const CodeRange> ranges, char32_t code) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

// The blocks that BERT's tokenize_chinese_chars splits.
bool is_cjk(char32_t code) {
  constexpr CodeRange kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                                   {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return in(kBlocks, code);
}

// ASCII symbols count as punctuation too, whatever their category.
bool is_punctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  }
  return in(punctuation(), code);
}

bool is_space(char32_t code) {
  return code == U' ' || code == U'\t' || code == U'\n' || code == U'\r' || in(spaces(), code);
}

// One code point of `text` at `at`, which moves on; bad bytes give kReplacement, one at a time.
char32_t next_code(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 && lead < 0xF5   ? 3
                   : lead >= 0xE0 && lead < 0xF0 ? 2
                   : lead >= 0xC2 && lead < 0xE0 ? 1
                                                 : 0;
  if (more == 0 || at + static_cast<std::size_t>(more) > text.size()) return kReplacement;
  auto code = static_cast<char32_t>(lead & (0x3F >> more));
  for (int i = 0; i < more; ++i) {
    const unsigned char next = byte(at + static_cast<std::size_t>(i));
    if ((next & 0xC0) != 0x80) return kReplacement;
    code = (code << 6) | (next & 0x3FU);
  }
  const char32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return kReplacement;
  at += static_cast<std::size_t>(more);
  return code;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t value) { out.push_back(static_cast<char>(static_cast<unsigned char>(value))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// Lower case without accents.
void append_folded(std::string& out, char32_t code) {
  if (code < 0x80) {
    append_utf8(out, code >= U'A' && code <= U'Z' ? code + 32 : code);
    return;
  }
  if (code >= 0xAC00 && code < 0xD7A4) {  // Hangul syllables decompose by arithmetic (Unicode 3.12)
    const char32_t index = code - 0xAC00;
    append_utf8(out, 0x1100 + index / 588);
    append_utf8(out, 0x1161 + index % 588 / 28);
    if (index % 28 != 0) append_utf8(out, 0x11A7 + index % 28);
    return;
  }
  const auto table = folds();
  const auto found = std::lower_bound(table.begin(), table.end(), code,
                                      [](const Fold& fold, char32_t value) { return fold.from < value; });
  if (found == table.end() || found->from != code) {
    append_utf8(out, code);
    return;
  }
  append_utf8(out, found->to[0]);
  if (found->to[1] != 0) append_utf8(out, found->to[1]);
}

std::size_t character_count(std::string_view word) {
  return static_cast<std::size_t>(
      std::count_if(word.begin(), word.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{
        ErrorKind::input, "TE0650", "the vocabulary cannot be read", path, "a vocab.txt file", "no such file", {}, ""};
  }
  Tokenizer tokenizer;
  std::string line;
  std::int32_t id = 0;
  while (std::getline(file, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    tokenizer.ids_.emplace(line, id++);
  }
  const std::pair<const char*, std::int32_t*> special[] = {
      {"[UNK]", &tokenizer.unknown_}, {"[CLS]", &tokenizer.begin_}, {"[SEP]", &tokenizer.end_}};
  for (const auto& [token, slot] : special) {
    const auto found = tokenizer.ids_.find(token);
    if (found == tokenizer.ids_.end()) {
      return Error{ErrorKind::input,
                   "TE0650",
                   "the vocabulary lacks a special token",
                   path,
                   token,
                   fmt::format("{} other tokens", id),
                   {},
                   ""};
    }
    *slot = found->second;
  }
  return tokenizer;
}

std::vector<std::string> Tokenizer::words(std::string_view text) {
  std::vector<std::string> result;
  std::string word;
  const auto close = [&] {
    if (!word.empty()) result.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_code(text, at);
    if (is_space(code)) {
      close();
    } else if (code == 0 || code == kReplacement || in(controls(), code) || in(nonspacing_marks(), code)) {
      continue;
    } else if (is_punctuation(code) || is_cjk(code)) {
      close();
      append_folded(word, code);
      close();
    } else {
      append_folded(word, code);
    }
  }
  close();
  return result;
}

// Greedy longest match first; a word with no match anywhere is [UNK] as a whole.
void Tokenizer::pieces(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  if (character_count(word) > kMaxWordCharacters) {
    ids.push_back(unknown_);
    return;
  }
  std::string piece;
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t end = word.size();
    for (; end > begin; --end) {
      if (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) continue;
      piece.assign(begin == 0 ? "" : "##").append(word.substr(begin, end - begin));
      if (const auto found = ids_.find(piece); found != ids_.end()) {
        ids.push_back(found->second);
        break;
      }
    }
    if (end == begin) {
      ids.resize(before);
      ids.push_back(unknown_);
      return;
    }
    begin = end;
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::size_t max_length) const {
  std::vector<std::int32_t> ids{begin_};
  for (const std::string& word : words(text)) pieces(word, ids);
  if (max_length >= 2 && ids.size() > max_length - 1) ids.resize(max_length - 1);
  ids.push_back(end_);
  return ids;
}

}  // namespace tetrad::embed
