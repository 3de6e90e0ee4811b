#include <fmt/core.h>

#include <cstdio>

#include "cli.hpp"

namespace tetrad::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFirstDraw = std::chrono::milliseconds(500);
constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr std::size_t kLineWidth = 79;

}  // namespace

Progress::Progress(const Context& context, std::string what)
    : context_(context), what_(std::move(what)), start_(Clock::now()), drawn_(start_ - kBetweenDraws) {}

Progress::~Progress() {
  if (visible_) {
    std::fputs("\r\x1b[K", stderr);
  }
}

void Progress::update(std::uint64_t done, std::uint64_t total, std::string_view item) {
  if (!context_.tty_err || context_.verbosity < 0) {
    return;
  }
  const auto now = Clock::now();
  if (now - start_ < kFirstDraw || now - drawn_ < kBetweenDraws) {
    return;
  }
  drawn_ = now;
  visible_ = true;
  const double share = total == 0 ? 0.0 : 100.0 * static_cast<double>(done) / static_cast<double>(total);
  const std::string line = fmt::format("{} {:3.0f} %  {}", what_, share, item).substr(0, kLineWidth);
  std::fputs(fmt::format("\r\x1b[K{}", line).c_str(), stderr);
}

void Progress::item_done(std::string_view item) {
  if (!context_.tty_err && context_.verbosity >= 0) {
    std::fputs(fmt::format("{}: {}\n", what_, item).c_str(), stderr);
  }
}

}  // namespace tetrad::cli
