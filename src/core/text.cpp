#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace tetrad::core {
namespace {

constexpr int kLowestPower = -3;
constexpr std::array<std::string_view, 9> kPrefixes = {"n", "u", "m", "", "k", "M", "G", "T", "P"};
constexpr int kHighestPower = kLowestPower + static_cast<int>(kPrefixes.size()) - 1;

// `lowest`: power of 1000 of the smallest prefix allowed.
std::string with_prefix(double value, int lowest, std::string_view unit) {
  if (!std::isfinite(value)) return "-";
  if (value == 0.0) return fmt::format("0 {}", unit);
  int power = 0;
  while (std::fabs(value) >= 999.5 && power < kHighestPower) {
    value /= 1000.0;
    ++power;
  }
  while (std::fabs(value) < 0.9995 && power > lowest) {
    value *= 1000.0;
    --power;
  }
  const double size = std::fabs(value);
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}{}", value, decimals, kPrefixes[static_cast<std::size_t>(power - kLowestPower)], unit);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table; the third serves the swap of neighbours.
  std::vector<int> two(b.size() + 1);
  std::vector<int> one(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) one[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = one[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({one[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], two[j - 2] + 1);
    }
    std::swap(two, one);
    std::swap(one, row);
  }
  return one[b.size()];
}

std::vector<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  constexpr int kMaxDistance = 3;
  constexpr std::size_t kMaxWord = 128;  // longer words are no typos, and the table is quadratic
  if (word.empty() || word.size() > kMaxWord) return {};
  std::vector<std::pair<int, std::size_t>> near;
  const std::string small = lower(word);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const int distance = edit_distance(small, lower(known[i]));
    // More than half of the word's letters wrong is another word, not a slip.
    if (distance <= std::min<int>(kMaxDistance, (static_cast<int>(word.size()) + 1) / 2))
      near.emplace_back(distance, i);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < near.size() && i < 3; ++i) names.push_back(known[near[i].second]);
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::vector<std::string> names = nearest(word, known);
  if (names.empty()) return {};
  std::string text = "did you mean ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += "'" + names[i] + "'";
  }
  return text + "?";
}

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

bool parse_int(std::string_view text, long long& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string time_text(double seconds) { return with_prefix(seconds, kLowestPower, "s"); }

std::string quantity_text(double value, std::string_view unit) { return with_prefix(value, 0, unit); }

}  // namespace tetrad::core
