// Pieces of SVG and HTML text, for self-contained reports.
#pragma once

#include <string>
#include <vector>

namespace plait {

// Text with <, >, &, quotes and control characters made harmless.
std::string html_escaped(const std::string& text);

// A scale from values to pixels, linear or logarithmic.
struct Scale {
  double low = 0, high = 1;        // values
  double begin = 0, length = 100;  // pixels; a negative length grows upwards
  bool logarithmic = false;

  double at(double value) const;
};

// Round values that divide [low, high] into about `count` parts; for a logarithmic scale 1, 2 and 5
// times powers of ten.
std::vector<double> axis_ticks(const Scale& scale, int count);

// A number without needless digits: "0.5", "12", "1.2e+06".
std::string tick_text(double value);

// One colour and its name, for stacked bars.
struct LegendEntry {
  std::string name;
  std::string colour;
};
std::string legend_html(const std::vector<LegendEntry>& entries);

}  // namespace plait
