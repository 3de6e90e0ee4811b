// Help texts: the first screen, one verb, and the pages of docs/ that are compiled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli.hpp"

namespace tetrad::cli {

extern const std::string_view kPageExitCodes;  // docs/exit-codes.md
extern const std::string_view kPageJson;       // docs/json.md
extern const std::string_view kPageErrors;     // docs/errors.md

// The first screen: verbs by task, at most 45 lines of 80 columns.
std::string first_screen();
// Usage, flags, examples of one verb, wrapped at 80 columns.
std::string help_text(const Verb& verb, const CLI::App& app);
// Null if there is none of that name.
const Verb* find_verb(std::string_view name);
std::vector<std::string> verb_names();

// One "## ID title" section of docs/errors.md.
struct Explanation {
  std::string id;
  std::string title;
  std::string text;
};
std::vector<Explanation> explanations();

}  // namespace tetrad::cli
