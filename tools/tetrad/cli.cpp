#include "cli.hpp"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/text.hpp"

namespace tetrad::cli {
namespace {

void write_out(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) {
    return;
  }
  if (errno == EPIPE) {
    std::_Exit(kOk);
  }
  std::fputs(fmt::format("error[TE0907]: cannot write to standard output: {}\n", std::strerror(errno)).c_str(), stderr);
  std::_Exit(kUnavailable);
}

void write_err(const std::string& text) {
  // Lines of the answer that were printed before stay before.
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::input:
      return kUsage;
    case ErrorKind::unavailable:
      return kUnavailable;
    case ErrorKind::check:
      return kWrongResult;
    case ErrorKind::internal:
      return kBug;
  }
  return kBug;
}

std::string_view kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::input:
      return "input";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::check:
      return "check";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace

void print(std::string_view text) { write_out(text); }

void warn(const Context& context, std::string_view text) {
  if (context.verbosity >= 0) {
    write_err(fmt::format("{} {}\n", paint(context.color_err, Style::yellow, "warning:"), text));
  }
}

int report(const Context& context, const Error& error) {
  const std::string id = error.id.empty() ? "TE0970" : error.id;
  std::string text =
      fmt::format("{} {}\n", paint(context.color_err, Style::red, fmt::format("error[{}]:", id)), error.what);
  const auto line = [&text](std::string_view label, std::string_view value) {
    if (!value.empty()) {
      text += fmt::format("  {:<6} {}\n", label, value);
    }
  };
  line("where", error.where);
  line("need", error.need);
  line("have", error.have);
  for (const std::string& cause : error.causes) {
    line("cause", cause);
  }
  line("help", error.hint);
  write_err(text);
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.error/1.0");
    out["error"] = {{"id", id},
                    {"kind", kind_name(error.kind)},
                    {"what", error.what},
                    {"where", error.where},
                    {"need", error.need},
                    {"have", error.have},
                    {"causes", error.causes},
                    {"hint", error.hint},
                    {"exit_code", exit_code(error.kind)}};
    print_json(out);
  }
  return exit_code(error.kind);
}

std::string paint(bool color, Style style, std::string_view text) {
  if (!color) {
    return std::string(text);
  }
  constexpr std::array<std::string_view, 6> codes = {"1", "2", "31", "32", "33", "36"};
  return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(style)], text);
}

nlohmann::json document(const Context& context, std::string_view schema) {
  return {{"schema", schema}, {"tetrad", TETRAD_VERSION}, {"argv", context.argv}};
}

void print_json(const nlohmann::json& document) {
  print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string time_text(double seconds) { return core::time_text(seconds); }

std::string rate_text(double per_second, std::string_view unit) { return core::quantity_text(per_second, unit); }

std::string bytes_text(double bytes) {
  return bytes < 999.5 && bytes == std::floor(bytes) ? fmt::format("{:.0f} B", bytes) : core::quantity_text(bytes, "B");
}

}  // namespace tetrad::cli
