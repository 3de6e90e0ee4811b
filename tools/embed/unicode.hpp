// The parts of Unicode's character data that BERT's uncased tokeniser uses.
#pragma once

#include <cstdint>
#include <span>

namespace tetrad::embed {

// `from` in lower case and without accents; to[1] is 0 where one code point is enough.
struct Fold {
  char32_t from;
  char32_t to[2];
};

struct CodeRange {
  char32_t first;
  char32_t last;
};

// Sorted tables (unicode_table.cpp).
std::span<const Fold> folds();
std::span<const CodeRange> punctuation();       // categories P*
std::span<const CodeRange> nonspacing_marks();  // category Mn
std::span<const CodeRange> controls();          // categories Cc, Cf, Co
std::span<const CodeRange> spaces();            // categories Zs, Zl, Zp

}  // namespace tetrad::embed
