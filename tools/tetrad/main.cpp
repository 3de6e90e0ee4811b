// The command line: global options, the verb, its words; failures of any kind become exit codes.
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "cli.hpp"
#include "core/text.hpp"
#include "help.hpp"

namespace tetrad::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// --color > TETRAD_COLOR > NO_COLOR (non-empty) > a terminal that is not "dumb".
bool use_color(const std::string& flag, bool tty) {
  const std::string choice = flag.empty() ? environment("TETRAD_COLOR") : flag;
  if (choice == "always" || choice == "never") {
    return choice == "always";
  }
  return environment("NO_COLOR").empty() && tty && environment("TERM") != "dumb";
}

Error usage(std::string id, std::string what, std::string hint) {
  Error error;
  error.kind = ErrorKind::usage;
  error.id = std::move(id);
  error.what = std::move(what);
  error.hint = std::move(hint);
  return error;
}

std::string joined(const std::string& suggestion, const std::string& command) {
  return suggestion.empty() ? command : suggestion + " " + command;
}

Error unknown_verb(const std::string& word) {
  const std::vector<std::string> names = verb_names();
  return usage("TE0901", fmt::format("unknown command '{}'", word),
               joined(core::did_you_mean(word, names), "'tetrad --help' lists all commands"));
}

std::vector<std::string> global_flags() {
  return {"--help", "--quiet", "--verbose", "--json", "--color", "--data", "--version"};
}

Error unknown_global(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return usage("TE0902", fmt::format("unknown flag '{}'", name),
               joined(core::did_you_mean(name, global_flags()), "'tetrad --help' lists the global options"));
}

Error unknown_word(const Verb& verb, const CLI::App& app, const std::string& word) {
  const std::string list = fmt::format("'tetrad {} --help' lists what it takes", verb.name);
  if (!word.starts_with("-") || word == "-" || word == "--") {
    return usage("TE0905", fmt::format("unexpected word '{}' after '{}'", word, verb.name), list);
  }
  std::vector<std::string> flags = global_flags();
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
  }
  const std::string name = word.substr(0, word.find('='));
  return usage("TE0902", fmt::format("unknown flag '{}' of '{}'", name, verb.name),
               joined(core::did_you_mean(name, flags), list));
}

// CLI11's sentence in the grammar of our messages.
std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n' || text.back() == ' ')) {
    text.pop_back();
  }
  if (text.size() > 1 && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
      std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

Error bad_words(const Verb& verb, const CLI::App& app, const CLI::ParseError& failure) {
  // A mistyped flag is the cause when something required is missing.
  for (const std::string& word : app.remaining()) {
    if (word.starts_with("-") && word.size() > 1) {
      return unknown_word(verb, app, word);
    }
  }
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&failure) != nullptr;
  return usage(missing ? "TE0903" : "TE0904", sentence(failure.what()),
               fmt::format("'tetrad {} --help' lists what it takes", verb.name));
}

int run_verb(Context& context, const Verb& verb, std::vector<std::string> words) {
  CLI::App app(verb.summary, "tetrad " + verb.name);
  app.set_help_flag("-h,--help", "Show this help");
  app.allow_extras();
  app.get_formatter()->column_width(28);
  const Action action = verb.add(app);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    print(help_text(verb, app));
    return kOk;
  } catch (const CLI::ParseError& failure) {
    return report(context, bad_words(verb, app, failure));
  }
  for (const std::string& word : app.remaining()) {
    if (word != "--") {
      return report(context, unknown_word(verb, app, word));
    }
  }
  return action(context);
}

// Takes the global options out of the words, wherever they stand; the rest belongs to the verb.
std::vector<std::string> take_globals(Context& context, bool& version) {
  // Known before anything can fail, so that a failure is reported in the form that was asked for.
  for (const std::string& word : context.argv) {
    context.json = context.json || word == "--json";
  }
  std::string color;
  bool quiet = false;
  int verbose = 0;
  CLI::App globals;
  globals.set_help_flag();
  globals.allow_extras();
  globals.add_flag("-q,--quiet", quiet);
  globals.add_flag("-v,--verbose", verbose);
  globals.add_flag("--json", context.json);
  globals.add_flag("--version", version);
  globals.add_option("--color", color)->check(CLI::IsMember({"auto", "always", "never"}));
  globals.add_option("--data", context.data_dir);
  globals.parse(std::vector<std::string>(context.argv.rbegin(), context.argv.rend()));
  context.verbosity = quiet ? -1 : verbose;
  context.color_out = !context.json && use_color(color, context.tty_out);
  context.color_err = use_color(color, context.tty_err);
  return globals.remaining();
}

int run(Context& context) {
  std::vector<std::string> words;
  bool version = false;
  try {
    words = take_globals(context, version);
  } catch (const CLI::ParseError& failure) {
    return report(context, usage("TE0904", sentence(failure.what()), "'tetrad --help' lists the global options"));
  }
  if (version) {
    if (context.json) {
      print_json(document(context, "tetrad.version/1.0"));
    } else {
      print("tetrad " TETRAD_VERSION "\n");
    }
    return kOk;
  }
  if (words.empty() || words[0] == "-h" || words[0] == "--help") {
    print(first_screen());
    return kOk;
  }
  const Verb* verb = find_verb(words[0]);
  if (verb == nullptr) {
    return report(context, words[0].starts_with("-") ? unknown_global(words[0]) : unknown_verb(words[0]));
  }
  return run_verb(context, *verb, {words.begin() + 1, words.end()});
}

Error bug(std::string what) {
  Error error;
  error.kind = ErrorKind::internal;
  error.id = "TE0970";
  error.what = std::move(what);
  error.hint = "this is a bug in tetrad: report it with the command line";
  return error;
}

}  // namespace
}  // namespace tetrad::cli

int main(int argc, char** argv) {
  using namespace tetrad::cli;
  // A closed pipe then fails the write, which print() ends quietly.
  std::signal(SIGPIPE, SIG_IGN);
  Context context;
  context.argv.assign(argv + 1, argv + argc);
  context.tty_out = isatty(STDOUT_FILENO) != 0;
  context.tty_err = isatty(STDERR_FILENO) != 0;
  try {
    return run(context);
  } catch (const std::bad_alloc&) {
    tetrad::Error error;
    error.kind = tetrad::ErrorKind::unavailable;
    error.id = "TE0908";
    error.what = "out of memory";
    error.hint = "a smaller problem, fewer threads, or a machine with more memory";
    return report(context, error);
  } catch (const std::exception& failure) {
    return report(context, bug(std::string("unexpected failure: ") + failure.what()));
  }
}
