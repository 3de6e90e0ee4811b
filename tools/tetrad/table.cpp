#include <algorithm>

#include "cli.hpp"

namespace tetrad::cli {
namespace {

constexpr std::size_t kTableWidth = 100;
constexpr std::size_t kShrunkWidth = 8;
constexpr std::size_t kGap = 2;

// Columns that a text takes: code points, colour sequences not counted.
std::size_t width(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') {
        ++i;
      }
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++count;
    }
  }
  return count;
}

// The first `columns` columns, the last three as "..." (plain text: the colour is dropped).
std::string cut(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') {
        ++i;
      }
      continue;
    }
    count += (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U ? 1 : 0;
    if (count > columns - 3) {
      break;
    }
    out += text[i];
  }
  return out + "...";
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const Context& context) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = width(columns_[c].head);
    for (const auto& row : rows_) {
      widest = std::max(widest, width(row[c]));
    }
    widths.push_back(widest);
    total += widest + (c == 0 ? 0 : kGap);
  }
  for (std::size_t c = 0; c < columns_.size() && context.tty_out && total > kTableWidth; ++c) {
    if (columns_[c].shrink && widths[c] > kShrunkWidth) {
      const std::size_t less = std::min(total - kTableWidth, widths[c] - kShrunkWidth);
      widths[c] -= less;
      total -= less;
    }
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells, bool head) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = width(cells[c]) > widths[c] ? cut(cells[c], widths[c]) : cells[c];
      const std::string pad(widths[c] - width(cell), ' ');
      const std::string shown = head ? paint(context.color_out, Style::bold, cell) : cell;
      text += (c == 0 ? "" : std::string(kGap, ' ')) + (columns_[c].right ? pad + shown : shown + pad);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  std::vector<std::string> heads;
  for (const Column& column : columns_) {
    heads.push_back(column.head);
  }
  if (std::any_of(heads.begin(), heads.end(), [](const std::string& head) { return !head.empty(); })) {
    line(heads, true);
  }
  for (const auto& row : rows_) {
    line(row, false);
  }
  return out;
}

}  // namespace tetrad::cli
