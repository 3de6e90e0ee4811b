// Plots as SVG: log-log line charts.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tetrad::svg {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), both positive; x ascending
  bool reference = false;                         // a limit, drawn dashed and grey
};

struct Panel {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
};

// One SVG document, panels below each other. Both axes are logarithmic; x ticks stand at the points' own values, y
// ticks at 1, 2, 5 times powers of ten, written as times (the y values are seconds).
std::string render(const std::vector<Panel>& panels);

}  // namespace tetrad::svg
