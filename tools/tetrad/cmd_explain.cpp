// tetrad explain ID|TOPIC
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "cli.hpp"
#include "core/text.hpp"
#include "explain_smem.hpp"
#include "help.hpp"

namespace tetrad::cli {
namespace {

int explain(const Context& context, std::string word) {
  if (core::lower(word) == kTopicSmemSm120) return explain_smem_sm120(context);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  std::vector<std::string> known;
  for (const Explanation& item : explanations()) {
    if (item.id == word) {
      if (context.json) {
        nlohmann::json out = document(context, "tetrad.explain/1.0");
        out["id"] = item.id;
        out["title"] = item.title;
        out["text"] = item.text;
        print_json(out);
      } else {
        print(fmt::format("{} {}\n\n{}", paint(context.color_out, Style::bold, item.id), item.title, item.text));
      }
      return kOk;
    }
    // Nearest within the same kind of id.
    if (item.id.substr(0, 2) == word.substr(0, 2)) {
      known.push_back(item.id);
    }
  }
  Error error;
  error.kind = ErrorKind::usage;
  error.id = "TE0906";
  error.what = fmt::format("unknown id '{}'", word);
  error.need = "an id as printed in a message, like TE0901 or TP0203";
  error.hint = "'tetrad help errors' lists all ids";
  if (word.starts_with("SM")) {
    known.emplace_back("SMEM-SM120");
    error.need = "an id, or the topic smem-sm120";
  }
  const std::string near = core::did_you_mean(word, known);
  if (!near.empty()) {
    error.hint = near + " " + error.hint;
  }
  return report(context, error);
}

}  // namespace

Verb verb_explain() {
  Verb verb;
  verb.name = "explain";
  verb.group = "Help";
  verb.summary = "Explain the id of a message (TE) or reason (TP)";
  verb.examples =
      "tetrad explain TP0203\n"
      "tetrad explain smem-sm120";
  verb.add = [](CLI::App& app) -> Action {
    auto id = std::make_shared<std::string>();
    app.add_option("ID", *id, "The id, as printed in a message, or the topic smem-sm120")->required();
    return [id](Context& context) { return explain(context, *id); };
  };
  return verb;
}

}  // namespace tetrad::cli
