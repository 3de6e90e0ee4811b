#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.hpp"
#include "tetrad/plan.hpp"

namespace tetrad {
namespace {

using core::quantity_text;
using core::time_text;

constexpr std::size_t kColumns = 100;
constexpr std::size_t kLabel = 10;  // width of the words on the left

// Splits at blanks into lines of at most `width`; a longer word stands alone.
std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
    at = end + 1;
  }
  return lines;
}

std::string labelled(const std::string& label, const std::string& text) {
  std::string out;
  for (const std::string& line : wrap(text, kColumns - kLabel)) {
    out += fmt::format("{:<{}}{}\n", out.empty() ? label : "", kLabel, line);
  }
  return out;
}

struct Column {
  const char* head;
  std::size_t widest;  // cells are wrapped to it
  bool right = false;
};

// Left- or right-aligned columns two blanks apart, no blanks at the end of a line.
template <std::size_t N>
std::string table(const std::array<Column, N>& columns, const std::vector<std::array<std::string, N>>& rows) {
  std::array<std::size_t, N> width{};
  std::vector<std::array<std::vector<std::string>, N>> cells(rows.size());
  for (std::size_t c = 0; c < N; ++c) {
    width[c] = std::string_view(columns[c].head).size();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      cells[r][c] = wrap(rows[r][c], columns[c].widest);
      for (const std::string& line : cells[r][c]) width[c] = std::max(width[c], line.size());
    }
  }
  std::string out;
  const auto add_line = [&](const auto& cell) {
    std::string line;
    for (std::size_t c = 0; c < N; ++c) {
      const std::string text = cell(c);
      line += columns[c].right ? fmt::format("{:>{}}  ", text, width[c]) : fmt::format("{:<{}}  ", text, width[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](std::size_t c) { return std::string(columns[c].head); });
  for (const auto& row : cells) {
    std::size_t lines = 0;
    for (const auto& cell : row) lines = std::max(lines, cell.size());
    for (std::size_t i = 0; i < lines; ++i) {
      add_line([&](std::size_t c) { return i < row[c].size() ? row[c][i] : std::string(); });
    }
  }
  return out;
}

std::string code_of(const DeviceProfile& device) {
  return device.host ? std::string("CPU") : fmt::format("sm_{}{}", device.cc.major, device.cc.minor);
}

std::string_view word(Origin origin, Certainty certainty) {
  if (origin == Origin::measured) return "measured here";
  if (origin == Origin::driver) return "driver";
  switch (certainty) {
    case Certainty::vendor:
      return "vendor";
    case Certainty::third_party_measured:
      return "measured by others";
    case Certainty::measured_here:
      return "measured here";
    case Certainty::listed:
      return "listed";
    case Certainty::memory:
      return "unverified";
    case Certainty::unknown:
      break;
  }
  return "source unknown";
}

std::string facts_text(const DeviceProfile& device) {
  std::vector<std::string> known;
  std::vector<std::string> unknown;
  const auto rate = [&](const char* what, const Fact<double>& fact, const char* unit) {
    if (!fact.known()) {
      unknown.emplace_back(what);
    } else {
      known.push_back(
          fmt::format("{} {}/s ({})", what, quantity_text(*fact.value, unit), word(fact.origin, fact.certainty)));
    }
  };
  rate("read bandwidth", device.bandwidth(), "B");
  if (device.host) {
    rate("fp32", device.peak_fp32, "FLOP");
    rate("int8", device.peak_int8, "OP");
  } else {
    rate("bf16", device.peak_bf16, "FLOP");
    if (device.has(Feature::mma_fp8) || device.has(Feature::wgmma) || device.has(Feature::tcgen05)) {
      rate("fp8", device.peak_fp8, "FLOP");
    }
    if (device.has(Feature::mma_nvfp4) || device.has(Feature::tcgen05)) rate("nvfp4", device.peak_nvfp4, "FLOP");
    if (!device.smem_per_block_optin.known()) unknown.emplace_back("shared memory per block");
  }
  std::string out = fmt::format("{}", fmt::join(known, ", "));
  if (!unknown.empty()) out += fmt::format("{}unknown: {}", out.empty() ? "" : "; ", fmt::join(unknown, ", "));
  return out;
}

std::string device_text(const DeviceProfile& device) {
  std::string out = fmt::format("{} ({}), {}", device.name, device.slug, code_of(device));
  if (device.sms.known()) out += fmt::format(", {} {}", *device.sms.value, device.host ? "threads" : "SMs");
  if (device.smem_per_block_optin.known()) {
    out += fmt::format(", {} B shared memory per block", *device.smem_per_block_optin.value);
  }
  return out;
}

std::string question_text(Question question) {
  return question == Question::this_build
             ? "this build: only kernels whose code this build holds"
             : "if built: rows declared for later count too; none of them can be launched by this build";
}

std::string range_text(const Choice& choice) {
  if (!choice.m_end) return fmt::format("{} up", choice.m_begin);
  return *choice.m_end - choice.m_begin <= 1 ? fmt::format("{}", choice.m_begin)
                                             : fmt::format("{}-{}", choice.m_begin, *choice.m_end - 1);
}

std::string limit_text(const Choice& choice) {
  if (choice.limit_s <= 0.0) return "unknown";
  return fmt::format("{} {}", time_text(choice.limit_s), choice.limit_by.substr(0, choice.limit_by.find(' ')));
}

std::string choices_text(const Plan& plan) {
  constexpr std::array<Column, 8> kChoiceColumns{Column{"M", 10, true},       {"RANGE", 22},     {"CHOICE", 40},
                                                 Column{"EVIDENCE", 12},      {"TIME", 9, true}, {"LIMIT", 20},
                                                 Column{"OF LIMIT", 8, true}, {"BASIS", 8}};
  std::vector<std::array<std::string, 8>> rows;
  for (const Choice& c : plan.choices) {
    if (c.kernel.empty()) {
      rows.push_back({std::to_string(c.m), range_text(c), "none can run", "", "", limit_text(c), "", ""});
      continue;
    }
    const bool known = c.estimate.seconds > 0.0;
    const std::string share =
        known && c.limit_s > 0.0 ? fmt::format("{:.0f} %", 100.0 * c.limit_s / c.estimate.seconds) : "";
    rows.push_back({std::to_string(c.m), range_text(c), c.kernel, std::string(name(c.evidence)),
                    known ? time_text(c.estimate.seconds) : "unknown", limit_text(c), share,
                    std::string(name(c.estimate.basis))});
  }
  return table(kChoiceColumns, rows);
}

// Where the times of the chosen kernels come from, each source once.
std::string basis_text(const Plan& plan) {
  std::string out;
  std::vector<std::string> seen;
  for (const Choice& c : plan.choices) {
    const std::string line = fmt::format(
        "{}: {}", c.kernel, c.estimate.missing.empty() ? c.estimate.source : c.estimate.missing + " is unknown");
    if (c.kernel.empty() || std::find(seen.begin(), seen.end(), line) != seen.end()) continue;
    out += labelled(seen.empty() ? "basis" : "", line);
    seen.push_back(line);
  }
  return out;
}

// A run of asked m for which one kernel gets the same answer.
struct Group {
  std::size_t first = 0;
  std::size_t last = 0;
  Verdict verdict;
  double least = 0.0;  // slower: smallest and largest multiple of the choice's time; 0 if unknown
  double most = 0.0;
};

bool joins(const Group& group, const Verdict& verdict) {
  if (group.verdict.reason != verdict.reason) return false;
  if (verdict.reason == Reason::slower) return true;
  if (group.verdict.need != verdict.need) return false;
  return verdict.reason == Reason::m_range || group.verdict.have == verdict.have;
}

std::vector<Group> groups_of(const Plan& plan, std::size_t kernel) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const Choice& choice = plan.choices[i];
    const Considered& considered = choice.considered[kernel];
    if (considered.verdict.reason == Reason::eligible) continue;
    const double ratio = choice.estimate.seconds > 0.0 ? considered.estimate.seconds / choice.estimate.seconds : 0.0;
    if (!groups.empty() && groups.back().last + 1 == i && joins(groups.back(), considered.verdict)) {
      groups.back().last = i;
      groups.back().least = std::min(groups.back().least, ratio);
      groups.back().most = std::max(groups.back().most, ratio);
    } else {
      groups.push_back({i, i, considered.verdict, ratio, ratio});
    }
  }
  return groups;
}

std::string rejected_text(const Plan& plan) {
  constexpr std::array<Column, 5> kColumnsOfNo{
      Column{"NOT CHOSEN", 30}, {"AT M", 12}, {"WHY", 22}, {"NEED", 14}, {"HAVE", 14}};
  std::vector<std::array<std::string, 5>> rows;
  const std::size_t kernels = plan.choices.front().considered.size();
  for (std::size_t k = 0; k < kernels; ++k) {
    for (const Group& group : groups_of(plan, k)) {
      const bool all = group.first == 0 && group.last + 1 == plan.choices.size();
      const std::int64_t first = plan.choices[group.first].m;
      const std::int64_t last = plan.choices[group.last].m;
      std::string need = group.verdict.need;
      std::string have = group.verdict.have;
      if (group.verdict.reason == Reason::slower && first != last && group.least > 0.0) {
        need = "its time";
        have = fmt::format("{:.2f}x-{:.2f}x", group.least, group.most);
      }
      if (group.verdict.reason == Reason::m_range && first != last) have = fmt::format("m {}-{}", first, last);
      rows.push_back({plan.choices[group.first].considered[k].kernel,
                      all             ? "all"
                      : first == last ? std::to_string(first)
                                      : fmt::format("{}-{}", first, last),
                      fmt::format("{} {}", id(group.verdict.reason), name(group.verdict.reason)), std::move(need),
                      std::move(have)});
    }
  }
  return rows.empty() ? std::string() : "\n" + table(kColumnsOfNo, rows);
}

std::string counted_text(const Plan& plan) {
  constexpr std::array<Column, 6> kCounted{Column{"M", 10, true},          {"KERNEL", 40},     {"BYTES", 12, true},
                                           Column{"OPERATIONS", 14, true}, {"TIME", 10, true}, {"BOUND BY", 10}};
  std::vector<std::array<std::string, 6>> rows;
  for (const Choice& choice : plan.choices) {
    for (const Considered& c : choice.considered) {
      if (!c.verdict.eligible()) continue;
      rows.push_back({std::to_string(choice.m), c.kernel, quantity_text(c.estimate.bytes, "B"),
                      quantity_text(c.estimate.operations, "FLOP"),
                      c.estimate.seconds > 0.0 ? time_text(c.estimate.seconds) : "unknown", c.estimate.limit});
    }
  }
  return rows.empty() ? std::string() : "\n" + table(kCounted, rows);
}

}  // namespace

std::string to_text(const Plan& plan, bool verbose) {
  std::string out;
  out += labelled("problem", to_text(plan.problem));
  out += labelled("device", device_text(plan.device));
  out += labelled("facts", facts_text(plan.device));
  out += labelled("question", question_text(plan.question));
  if (!plan.layout.empty()) out += labelled("layout", plan.layout);
  for (const std::string& warning : plan.warnings) out += labelled("note", warning);
  out += "\n" + choices_text(plan);
  out += basis_text(plan);
  out += rejected_text(plan);
  if (verbose) out += counted_text(plan);
  return out;
}

}  // namespace tetrad
