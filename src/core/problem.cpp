#include "tetrad/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>

#include "core/text.hpp"

namespace tetrad {
namespace {

constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxRows = 256;  // values of m in one set
constexpr std::string_view kUsage = "words like \"m1,16 n4096 k4096 a=bf16 w=nvfp4 acc=w4a4 out=bf16\"";

Error bad(std::string id, std::string what, std::string need, std::string have, std::string hint = {}) {
  return {ErrorKind::usage, std::move(id), std::move(what), "problem text", std::move(need), std::move(have), {},
          std::move(hint)};
}

// Clips foreign text for a message.
std::string quoted(std::string_view text) {
  constexpr std::size_t kClip = 60;
  std::string out = "'";
  for (const char c : text.substr(0, kClip)) out += c >= 0x20 && c < 0x7F ? c : '?';
  return out + (text.size() > kClip ? "...'" : "'");
}

Result<std::int64_t> size_value(std::string_view field, std::string_view text) {
  long long value = 0;
  if (!core::parse_int(text, value) || value < 1 || value > kMaxSize) {
    return bad("TE0102", fmt::format("{} is not a usable size", field),
               fmt::format("a whole number from 1 to {}", kMaxSize), quoted(text));
  }
  return value;
}

Result<std::vector<std::int64_t>> size_list(std::string_view field, std::string_view text) {
  std::vector<std::int64_t> values;
  while (true) {
    const std::size_t comma = text.find(',');
    Result<std::int64_t> value = size_value(field, text.substr(0, comma));
    if (!value) return value.error();
    values.push_back(*value);
    if (values.size() > kMaxRows) {
      return bad("TE0107", "too many values of m", fmt::format("at most {}", kMaxRows), "more");
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

enum Word : std::size_t { kM, kN, kK, kA, kW, kAcc, kOut, kBias, kGroups, kTopK, kRows, kWords };
const std::array<std::string, kWords> kNames{"m", "n", "k", "a", "w", "acc", "out", "bias", "groups", "topk", "rows"};

// Splits "m16", "groups=8" or "bias" into the word and its value.
struct Pair {
  std::string_view key;
  std::string_view value;
};
Pair split(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) return {word.substr(0, equals), word.substr(equals + 1)};
  if (word.size() > 1 && (word[0] == 'm' || word[0] == 'n' || word[0] == 'k') && word[1] >= '0' && word[1] <= '9') {
    return {word.substr(0, 1), word.substr(1)};
  }
  return {word, {}};
}

template <class T, std::size_t N>
Result<T> choose(std::string_view field, std::string_view text, const std::array<T, N>& allowed) {
  std::vector<std::string> names;
  for (const T value : allowed) {
    if (name(value) == text) return value;
    names.emplace_back(name(value));
  }
  return bad("TE0103", fmt::format("unknown value of {}", field), fmt::format("{}", fmt::join(names, ", ")),
             quoted(text), core::did_you_mean(text, names));
}

constexpr std::array kActivationTypes{DType::f32, DType::bf16, DType::f16};
constexpr std::array kWeightTypes{DType::nvfp4};
constexpr std::array kAccs{Acc::w4a16, Acc::w4a8, Acc::w4a4};
constexpr std::array kRowLayouts{RowLayout::contiguous, RowLayout::masked};

// Sets one field from its word; the value of m is kept apart, since it is a list.
Status apply(Word word, std::string_view value, ProblemSet& set) {
  Problem& p = set.base;
  const auto take_size = [&](std::int64_t& field) -> Status {
    Result<std::int64_t> size = size_value(kNames[word], value);
    if (!size) return size.error();
    field = *size;
    return ok();
  };
  const auto take_choice = [&](auto& field, const auto& allowed) -> Status {
    auto chosen = choose(kNames[word], value, allowed);
    if (!chosen) return chosen.error();
    field = *chosen;
    return ok();
  };
  switch (word) {
    case kM: {
      Result<std::vector<std::int64_t>> list = size_list("m", value);
      if (!list) return list.error();
      set.m = std::move(*list);
      return ok();
    }
    case kN:
      return take_size(p.n);
    case kK:
      return take_size(p.k);
    case kGroups:
      return take_size(p.groups);
    case kTopK:
      return take_size(p.top_k);
    case kA:
      return take_choice(p.a, kActivationTypes);
    case kW:
      return take_choice(p.w, kWeightTypes);
    case kOut:
      return take_choice(p.out, kActivationTypes);
    case kAcc:
      return take_choice(p.acc, kAccs);
    case kRows:
      return take_choice(p.rows, kRowLayouts);
    case kBias:
      if (!value.empty()) return bad("TE0103", "bias takes no value", "the word bias alone", quoted(value));
      p.bias = true;
      return ok();
    case kWords:
      break;
  }
  return ok();
}

Status check(const ProblemSet& set) {
  const Problem& p = set.base;
  if (p.k % 16 != 0) {
    return bad("TE0105", "k is not a multiple of the scale block", "k % 16 = 0", fmt::format("k = {}", p.k));
  }
  if (p.top_k > p.groups) {
    return bad("TE0106", "topk is larger than groups", fmt::format("at most {}", p.groups), fmt::format("{}", p.top_k));
  }
  if (p.groups == 1 && p.rows != RowLayout::contiguous) {
    return bad("TE0106", "rows=masked needs groups", "groups of 2 or more", "groups = 1");
  }
  constexpr double kLimit = 9.2e18;  // bytes below 2^63; 4 bytes an element is the widest operand
  const auto sizes = {4.0 * static_cast<double>(set.m.back()) * static_cast<double>(p.k),
                      4.0 * static_cast<double>(set.m.back()) * static_cast<double>(p.n),
                      static_cast<double>(p.groups) * static_cast<double>(p.n) * static_cast<double>(p.k)};
  for (const double size : sizes) {
    if (size > kLimit) {
      return bad("TE0108", "an operand is too large to address", "below 2^63 bytes", fmt::format("{:.3g} bytes", size));
    }
  }
  return ok();
}

std::string to_text(const Problem& p, std::string_view m) {
  std::string text = fmt::format("m{} n{} k{} a={} w={} acc={} out={}", m, p.n, p.k, tetrad::name(p.a),
                                 tetrad::name(p.w), tetrad::name(p.acc), tetrad::name(p.out));
  if (p.bias) text += " bias";
  if (p.groups != 1) text += fmt::format(" groups={}", p.groups);
  if (p.top_k != 1) text += fmt::format(" topk={}", p.top_k);
  if (p.rows != RowLayout::contiguous) text += fmt::format(" rows={}", name(p.rows));
  return text;
}

}  // namespace

std::string_view name(Acc acc) {
  constexpr std::array<std::string_view, 3> kAccNames{"w4a16", "w4a8", "w4a4"};
  return kAccNames[static_cast<std::size_t>(acc)];
}

std::string_view name(RowLayout layout) { return layout == RowLayout::contiguous ? "contiguous" : "masked"; }

Result<ProblemSet> parse_problem(std::string_view text) {
  if (text.size() > kMaxText) {
    return bad("TE0101", "problem text is too long", fmt::format("at most {} characters", kMaxText),
               fmt::format("{}", text.size()));
  }
  ProblemSet set;
  set.m = {1};
  std::bitset<kWords> seen;
  constexpr std::string_view kBlank = " \t\r\n";
  for (std::size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const Pair pair = split(word);
    const auto known = std::find(kNames.begin(), kNames.end(), pair.key);
    if (known == kNames.end()) {
      return bad("TE0101", fmt::format("unknown word {}", quoted(word)), std::string(kUsage), quoted(word),
                 core::did_you_mean(pair.key, kNames));
    }
    const auto index = static_cast<std::size_t>(known - kNames.begin());
    if (seen[index]) {
      return bad("TE0104", fmt::format("{} is given twice", *known), "each word once", quoted(word));
    }
    seen.set(index);
    if (Status status = apply(static_cast<Word>(index), pair.value, set); !status) return status.error();
    at = text.find_first_not_of(kBlank, end);
  }
  for (const Word required : {kN, kK}) {
    if (!seen[required]) {
      return bad("TE0101", fmt::format("{} is missing", kNames[required]), std::string(kUsage),
                 text.empty() ? "nothing" : quoted(text));
    }
  }
  set.base.m = set.m.front();
  if (Status status = check(set); !status) return status.error();
  return set;
}

std::string to_text(const Problem& problem) { return to_text(problem, std::to_string(problem.m)); }

std::string to_text(const ProblemSet& set) { return to_text(set.base, fmt::format("{}", fmt::join(set.m, ","))); }

double flops(const Problem& problem) {
  return 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
}

}  // namespace tetrad
