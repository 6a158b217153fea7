#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/html/figures.h"
#include "plan/report.h"

namespace plait {
namespace {

constexpr double kScatterTop = 14, kScatterHeight = 400;
// A linear axis hides what lies below a twentieth of it.
constexpr double kLogRatio = 8;

struct Axes {
  Scale x, y;
};

Axes axes_of(const std::vector<ScatterPoint>& points, double capacity) {
  double left = std::numeric_limits<double>::max(), right = capacity / kGiB;
  double low = left, high = 0;
  for (const ScatterPoint& point : points) {
    left = std::min(left, point.peak_bytes / kGiB);
    right = std::max(right, point.peak_bytes / kGiB);
    low = std::min(low, point.seconds);
    high = std::max(high, point.seconds);
  }
  const double margin = std::max(0.03 * (right - left), 0.1);
  Axes axes;
  axes.x = {.low = std::max(0.0, left - margin),
            .high = right + margin,
            .begin = kPlotLeft,
            .length = kPlotWidth};
  axes.y = {
      .low = low, .high = high, .begin = kScatterTop + kScatterHeight, .length = -kScatterHeight};
  axes.y.logarithmic = high > kLogRatio * low;
  if (axes.y.logarithmic) {
    axes.y.low /= 1.1;
    axes.y.high *= 1.1;
  } else {
    const double gap = std::max(0.05 * (high - low), 0.02 * high);
    axes.y.low = std::max(0.0, low - gap);
    axes.y.high = high + gap;
  }
  return axes;
}

std::string axis_lines(const Axes& axes) {
  std::string text;
  for (const double tick : axis_ticks(axes.x, 8)) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mid\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        axes.x.at(tick), kScatterTop, kScatterTop + kScatterHeight,
        kScatterTop + kScatterHeight + 14, tick_text(tick));
  }
  double previous = std::numeric_limits<double>::max();
  for (const double tick : axis_ticks(axes.y, 6)) {
    const double y = axes.y.at(tick);
    if (previous - y < 14) {
      continue;
    }
    previous = y;
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"end\" x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
        kPlotLeft, kPlotLeft + kPlotWidth, y, kPlotLeft - 6, y + 4, tick_text(tick));
  }
  return text;
}

}  // namespace

std::string scatter_figure(const SearchResult& result, double capacity) {
  if (result.scatter.empty()) {
    return "";
  }
  const Axes axes = axes_of(result.scatter, capacity);
  std::string text =
      fmt::format("<svg class=\"scatter\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n",
                  kPlotLeft + kPlotWidth + 20, kScatterTop + kScatterHeight + 34);
  text += axis_lines(axes);
  std::string frontier;
  for (const ScatterPoint& point : result.scatter) {
    const double x = axes.x.at(point.peak_bytes / kGiB), y = axes.y.at(point.seconds);
    if (point.frontier) {
      frontier += frontier.empty() ? fmt::format("M{:.1f} {:.1f}", x, y)
                                   : fmt::format("H{:.1f}V{:.1f}", x, y);
    }
    text += fmt::format(
        "<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" data-tip=\"{}: {}, {}{}\"/>\n",
        point.simulated ? "s" : "p", point.frontier ? " front" : "", x, y,
        point.frontier ? 3.5 : 2.2, html_escaped(point.layout), bytes_text(point.peak_bytes),
        point.simulated ? "" : "at least ", format_seconds(point.seconds));
  }
  const double limit = axes.x.at(capacity / kGiB);
  text += fmt::format(
      "<path class=\"frontier\" d=\"{0}\"/>\n"
      "<line class=\"limit\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{3:.1f}\"/>\n"
      "<text class=\"mid\" x=\"{4:.1f}\" y=\"{5:.1f}\">peak memory of the fullest stage, "
      "GiB</text>\n"
      "<text class=\"mid\" transform=\"translate(16 {6:.1f}) rotate(-90)\">step, seconds{7}</text>"
      "</svg>\n",
      frontier, limit, kScatterTop, kScatterTop + kScatterHeight, kPlotLeft + kPlotWidth / 2,
      kScatterTop + kScatterHeight + 30, kScatterTop + kScatterHeight / 2,
      axes.y.logarithmic ? " (log)" : "");
  return text + "<p class=\"caption\">" +
         html_escaped(fmt::format(
             "{} of the layouts that fit: simulated ones with their step time, the others with the "
             "time that they cannot beat. The line joins those that nothing beats in both. The "
             "vertical line is the usable memory.",
             result.scatter.size())) +
         "</p>\n" + legend_html({{"simulated", "var(--s)"}, {"lower bound", "var(--p)"}});
}

}  // namespace plait
