// BERT's uncased tokeniser: basic tokenisation, then WordPiece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tetrad/error.hpp"

namespace tetrad::embed {

class Tokenizer {
 public:
  // `path`: vocab.txt, one token per line, the id is the line's index. Errors (input): unreadable file, a file without
  // [UNK], [CLS] and [SEP].
  static Result<Tokenizer> open(const std::string& path);

  // [CLS] pieces [SEP], at most `max_length` ids (the last pieces are dropped). Bytes that are no UTF-8 become U+FFFD
  // and are dropped, as in BERT's clean-up.
  std::vector<std::int32_t> encode(std::string_view text, std::size_t max_length) const;
  // Words of the basic tokenisation: lower case, accents stripped, punctuation and CJK characters alone.
  static std::vector<std::string> words(std::string_view text);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::int32_t unknown_ = 0;
  std::int32_t begin_ = 0;
  std::int32_t end_ = 0;

  void pieces(std::string_view word, std::vector<std::int32_t>& ids) const;
};

}  // namespace tetrad::embed
