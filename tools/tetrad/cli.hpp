// What every verb of the command shares: the verb table, context, errors, tables, progress, JSON documents.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"

namespace tetrad::cli {

// Exit codes of every verb (docs/exit-codes.md).
enum Exit : int { kOk = 0, kFindings = 1, kUsage = 2, kUnavailable = 3, kWrongResult = 4, kBug = 70 };

// Global options and the state of one invocation.
struct Context {
  std::vector<std::string> argv;  // as typed
  bool json = false;
  int verbosity = 0;       // -q = -1, -v = 1
  bool color_out = false;  // stdout may be coloured
  bool color_err = false;
  bool tty_out = false;
  bool tty_err = false;
  std::string data_dir;  // --data: device files over the built-in ones
};

// What a verb does after its words are parsed; returns an exit code.
using Action = std::function<int(Context&)>;

// One row of the verb table. `add` declares the verb's flags on its subcommand and returns its action; the action's
// state lives in a shared_ptr captured by both.
struct Verb {
  std::string name;
  std::string group;     // "Choose and run", "Measure", "Read files", "Write files", "Help"
  std::string summary;   // one line, at most 60 columns, no full stop
  std::string examples;  // lines "tetrad plan ...", shown under EXAMPLES by --help
  std::function<Action(CLI::App&)> add;
};

// THE list, in the order of the first screen (verbs.cpp). Each cmd_<verb>.cpp defines one `Verb verb_<name>();`.
const std::vector<Verb>& verbs();

// Prints to stdout; a closed pipe ends the program quietly with exit code 0.
void print(std::string_view text);
// Prints one line to stderr unless -q: "warning: ...".
void warn(const Context& context, std::string_view text);
// The one place where an Error becomes text (stderr) and, under --json, the document {"error": ...} on stdout.
// Returns the exit code of its kind.
int report(const Context& context, const Error& error);

// "error" -> red and so on, only where the stream may be coloured.
enum class Style : std::uint8_t { bold, dim, red, green, yellow, cyan };
std::string paint(bool color, Style style, std::string_view text);

// Columns for people: widths from the content, at most 100 columns in all (the `shrink` column is cut with "..." on a
// terminal, never in a pipe). Numbers are right-aligned by `right`.
class Table {
 public:
  struct Column {
    std::string head;
    bool right = false;
    bool shrink = false;
  };
  explicit Table(std::vector<Column> columns);
  void row(std::vector<std::string> cells);
  std::string text(const Context& context) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Progress on stderr: on a terminal drawn after 500 ms, at most ten times a second, erased at the end; elsewhere (and
// unless -q) one line per finished item.
class Progress {
 public:
  Progress(const Context& context, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(std::uint64_t done, std::uint64_t total, std::string_view item);
  void item_done(std::string_view item);

 private:
  const Context& context_;
  std::string what_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  bool visible_ = false;
};

// A JSON document with the common head: {"schema": "tetrad.<verb>/<major.minor>", "tetrad": version, "argv": [...]}.
nlohmann::json document(const Context& context, std::string_view schema);
// Prints it (two spaces of indent, one newline at the end).
void print_json(const nlohmann::json& document);

// "1.50 ms", "97.3 GB/s", "33.0 MB": three significant digits, SI units, 1000-based.
std::string time_text(double seconds);
std::string rate_text(double per_second, std::string_view unit);
std::string bytes_text(double bytes);

}  // namespace tetrad::cli
