#include "svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace tetrad::svg {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 420;  // of one panel
constexpr double kLeft = 84;
constexpr double kRight = 250;  // the legend stands there
constexpr double kTop = 48;
constexpr double kBottom = 60;
constexpr double kMinTickGap = 34;

// Okabe and Ito's palette: distinct for colour-blind readers too.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"};
constexpr const char* kMarks[] = {"circle", "square", "diamond", "triangle"};

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string time_tick(double seconds) {
  if (seconds < 0.999e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 0.999e-3) return fmt::format("{:.3g} \u00b5s", seconds * 1e6);
  if (seconds < 0.999) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

struct Axis {
  double low = 0.0;  // logarithms
  double high = 1.0;
  double from = 0.0;  // pixels
  double to = 1.0;
  double at(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

// Values 1, 2, 5 times powers of ten that cover [low, high].
std::vector<double> ticks(double low, double high) {
  std::vector<double> all;
  for (int e = static_cast<int>(std::floor(std::log10(low))) - 1; e <= static_cast<int>(std::ceil(std::log10(high)));
       ++e) {
    for (const double step : {1.0, 2.0, 5.0}) all.push_back(step * std::pow(10.0, e));
  }
  const auto first = std::prev(std::upper_bound(all.begin(), all.end(), low * (1 + 1e-9)));
  auto last = std::lower_bound(all.begin(), all.end(), high * (1 - 1e-9));
  if (last != all.end()) ++last;
  return {first, last};
}

std::string mark(std::size_t index, double x, double y, const char* colour) {
  const std::string_view kind = kMarks[index % std::size(kMarks)];
  if (kind == "circle")
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y, colour);
  const double r = 4;
  std::string points;
  if (kind == "square") {
    points = fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x - 3.3, y - 3.3, x + 3.3, y - 3.3,
                         x + 3.3, y + 3.3, x - 3.3, y + 3.3);
  } else if (kind == "diamond") {
    points = fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x, y - r - 1, x + r + 1, y, x,
                         y + r + 1, x - r - 1, y);
  } else {
    points = fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x, y - r - 1, x + r, y + r, x - r, y + r);
  }
  return fmt::format("<polygon points=\"{}\" fill=\"{}\"/>\n", points, colour);
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
}

std::string text(double x, double y, std::string_view anchor, std::string_view words, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y, anchor, more,
                     escape(words));
}

std::string draw(const Panel& panel, double top) {
  double x_low = INFINITY, x_high = 0.0, y_low = INFINITY, y_high = 0.0;
  std::set<double> xs;
  for (const Series& series : panel.series) {
    for (const auto& [x, y] : series.points) {
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
      xs.insert(x);
    }
  }
  if (xs.empty()) return "";
  const std::vector<double> y_ticks = ticks(y_low, y_high);
  Axis x{std::log10(x_low), std::log10(x_high), kLeft + 12, kWidth - kRight - 12};
  if (x.high - x.low < 0.3) {
    x.low -= 0.15;
    x.high += 0.15;
  }
  Axis y{std::log10(y_ticks.front()), std::log10(y_ticks.back()), top + kHeight - kBottom, top + kTop};
  if (y.high <= y.low) y.high = y.low + 1.0;

  std::string out;
  out += text(kLeft, top + 26, "start", panel.title, "font-size=\"15\" font-weight=\"600\"");
  for (const double tick : y_ticks) {
    const double at = y.at(tick);
    out += line(kLeft, at, kWidth - kRight, at, "stroke=\"#e3e3e3\"");
    out += text(kLeft - 8, at + 4, "end", time_tick(tick));
  }
  double last = -1e9;
  for (const double value : xs) {
    const double at = x.at(value);
    out += line(at, y.from, at, y.from + 5, "stroke=\"#555\"");
    if (at - last < kMinTickGap) continue;
    out += text(at, y.from + 20, "middle", fmt::format("{:g}", value));
    last = at;
  }
  out += line(kLeft, y.from, kWidth - kRight, y.from, "stroke=\"#555\"");
  out += line(kLeft, y.from, kLeft, y.to, "stroke=\"#555\"");
  out += text((kLeft + kWidth - kRight) / 2, y.from + 44, "middle", panel.x_label);
  const double middle = (y.from + y.to) / 2;
  out += text(20, middle, "middle", panel.y_label, fmt::format("transform=\"rotate(-90 20 {:.1f})\"", middle));

  std::size_t colour_index = 0;
  double legend = top + kTop + 10;
  for (const Series& series : panel.series) {
    const char* colour = series.reference ? "#777777" : kColours[colour_index % std::size(kColours)];
    const std::string style = fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}", colour,
                                          series.reference ? " stroke-dasharray=\"6 4\"" : "");
    std::string points;
    for (const auto& [px, py] : series.points) points += fmt::format("{:.1f},{:.1f} ", x.at(px), y.at(py));
    if (!points.empty()) points.pop_back();
    out += fmt::format("<polyline points=\"{}\" {}/>\n", points, style);
    const double legend_x = kWidth - kRight + 16;
    out += line(legend_x, legend, legend_x + 28, legend, style);
    if (!series.reference) {
      for (const auto& [px, py] : series.points) out += mark(colour_index, x.at(px), y.at(py), colour);
      out += mark(colour_index, legend_x + 14, legend, colour);
      ++colour_index;
    }
    out += text(legend_x + 36, legend + 4, "start", series.name);
    legend += 22;
  }
  return out;
}

}  // namespace

std::string render(const std::vector<Panel>& panels) {
  const double height = kHeight * static_cast<double>(panels.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
      kWidth, height);
  for (std::size_t i = 0; i < panels.size(); ++i) out += draw(panels[i], kHeight * static_cast<double>(i));
  return out + "</svg>\n";
}

}  // namespace tetrad::svg
