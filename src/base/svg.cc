#include "base/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace plait {

std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

double Scale::at(double value) const {
  double share = 0;
  if (logarithmic) {
    share = (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  } else if (high > low) {
    share = (value - low) / (high - low);
  }
  return begin + share * length;
}

std::vector<double> axis_ticks(const Scale& scale, int count) {
  std::vector<double> ticks;
  if (scale.logarithmic) {
    for (double decade = std::pow(10, std::floor(std::log10(scale.low))); decade <= scale.high;
         decade *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (decade * factor >= scale.low && decade * factor <= scale.high) {
          ticks.push_back(decade * factor);
        }
      }
    }
    return ticks;
  }
  const double span = scale.high - scale.low;
  if (!(span > 0) || count < 1) {
    return {scale.low};
  }
  const double raw = span / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) {
      step = factor * power;
      break;
    }
  }
  // Counted in steps: sums of steps would drift.
  const double first = std::ceil(scale.low / step);
  for (int i = 0; (first + i) * step <= scale.high * (1 + 1e-12); ++i) {
    ticks.push_back((first + i) * step);
  }
  return ticks;
}

std::string tick_text(double value) {
  return fmt::format("{:.4g}", value);
}

std::string legend_html(const std::vector<LegendEntry>& entries) {
  std::string text = "<p class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    text += fmt::format("<span><i style=\"background:{}\"></i>{}</span> ", entry.colour,
                        html_escaped(entry.name));
  }
  return text + "</p>\n";
}

}  // namespace plait
