#include "help.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tetrad::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::string_view kGlobals =
    "Options  -h, --help   -q quiet   -v verbose   --json   --version\n"
    "         --color auto|always|never [env: TETRAD_COLOR]\n"
    "         --data DIR   device files over the built-in ones\n";

// Breaks lines longer than 80 columns at spaces; a continuation starts where the description of its line starts.
std::string wrap(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t word = line.find_first_not_of(' ');
    std::size_t indent = word == std::string::npos ? 0 : word;
    if (const std::size_t gap = line.find("  ", indent); gap != std::string::npos && gap < kWidth / 2) {
      indent = line.find_first_not_of(' ', gap);
    }
    while (line.size() > kWidth) {
      std::size_t cut = line.rfind(' ', kWidth);
      if (cut == std::string::npos || cut <= indent) {
        break;
      }
      out += line.substr(0, cut) + "\n";
      line = std::string(indent, ' ') + line.substr(cut + 1);
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace

const Verb* find_verb(std::string_view name) {
  const auto& list = verbs();
  const auto it = std::find_if(list.begin(), list.end(), [&](const Verb& verb) { return verb.name == name; });
  return it == list.end() ? nullptr : &*it;
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) {
    names.push_back(verb.name);
  }
  return names;
}

std::string first_screen() {
  std::string out = "tetrad " TETRAD_VERSION ": NVFP4 matmul - which kernel, why, and is it right\n\n";
  out += "Usage: tetrad [OPTIONS] <COMMAND> [ARGS]\n\n";
  std::string group;
  for (const Verb& verb : verbs()) {
    out += fmt::format("{:<16} {:<10}{}\n", verb.group == group ? "" : verb.group, verb.name, verb.summary);
    group = verb.group;
  }
  out += "\n";
  out += kGlobals;
  out += "\nStart    tetrad plan \"m1,64 n4096 k4096\" --device gb10\n";
  out += "         tetrad run \"m1,64 n4096 k4096\"\n";
  out += "More     tetrad <COMMAND> --help      tetrad help exit-codes|json|errors\n";
  out += "Exit     0 ok  1 findings  2 usage or input  3 not possible here\n";
  out += "         4 wrong result  70 bug in tetrad\n";
  return out;
}

std::string help_text(const Verb& verb, const CLI::App& app) {
  std::string out = app.help();
  out += "\n";
  out += kGlobals;
  if (!verb.examples.empty()) {
    out += "\nExamples\n";
    std::string_view rest = verb.examples;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      out += fmt::format("  {}\n", rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }
  return wrap(out);
}

std::vector<Explanation> explanations() {
  std::vector<Explanation> list;
  std::string_view rest = kPageErrors;
  bool inside = false;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.starts_with("### T") && line.size() > 10) {
      list.push_back(
          {std::string(line.substr(4, 6)), std::string(line.substr(std::min<std::size_t>(11, line.size()))), ""});
      inside = true;
    } else if (line.starts_with("#")) {
      inside = false;
    } else if (inside && (!line.empty() || !list.back().text.empty())) {
      list.back().text += std::string(line) + "\n";
    }
  }
  for (Explanation& item : list) {
    while (item.text.ends_with("\n\n")) {
      item.text.pop_back();
    }
  }
  return list;
}

}  // namespace tetrad::cli
