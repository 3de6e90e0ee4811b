// tetrad help [TOPIC|COMMAND]
#include <fmt/core.h>

#include <memory>

#include "cli.hpp"
#include "core/text.hpp"
#include "help.hpp"

namespace tetrad::cli {
namespace {

struct Topic {
  std::string name;
  std::string_view page;
};

std::vector<Topic> topics() { return {{"exit-codes", kPageExitCodes}, {"json", kPageJson}, {"errors", kPageErrors}}; }

std::string help_of(const Verb& verb) {
  CLI::App app(verb.summary, "tetrad " + verb.name);
  app.set_help_flag("-h,--help", "Show this help");
  app.get_formatter()->column_width(28);
  verb.add(app);
  return help_text(verb, app);
}

int help(const Context& context, const std::string& word) {
  std::string text;
  if (word.empty()) {
    text = first_screen();
  } else if (const Verb* verb = find_verb(word)) {
    text = help_of(*verb);
  } else {
    std::vector<std::string> known = verb_names();
    for (const Topic& topic : topics()) {
      known.push_back(topic.name);
      if (topic.name == word) {
        text = topic.page;
      }
    }
    if (text.empty()) {
      Error error;
      error.kind = ErrorKind::usage;
      error.id = "TE0906";
      error.what = fmt::format("no help on '{}'", word);
      error.need = "a command, exit-codes, json or errors";
      error.hint = core::did_you_mean(word, known);
      return report(context, error);
    }
  }
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.help/1.0");
    out["topic"] = word;
    out["text"] = text;
    print_json(out);
  } else {
    print(text);
  }
  return kOk;
}

}  // namespace

Verb verb_help() {
  Verb verb;
  verb.name = "help";
  verb.group = "Help";
  verb.summary = "Show help on a command, exit codes, JSON or errors";
  verb.examples = "tetrad help plan\ntetrad help exit-codes";
  verb.add = [](CLI::App& app) -> Action {
    auto word = std::make_shared<std::string>();
    app.add_option("TOPIC", *word, "A command, exit-codes, json or errors");
    return [word](Context& context) { return help(context, *word); };
  };
  return verb;
}

}  // namespace tetrad::cli
