#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/svg.h"
#include "base/text.h"
#include "plan/html/figures.h"
#include "plan/report.h"
#include "plan/time_model.h"

namespace plait {
namespace {

constexpr int kMostRows = 60;
constexpr size_t kMostBoxes = 8000;
// More in one row are too narrow to tell apart.
constexpr size_t kMostRowBoxes = 150;
constexpr double kRowsTop = 8;

struct Window {
  double begin = 0, end = 0;
};

class Timeline {
 public:
  Timeline(const TrainJob& job, const PipelineResult& run)
      : layout_(job.layout), run_(run), rows_(std::min(job.layout.pp, kMostRows)) {}

  std::string text() const;

 private:
  std::string panel(const Window& window) const;
  std::string box(const TimelineEntry& entry, const Scale& x) const;
  std::string caption(bool whole, const Window& window) const;
  size_t boxes() const {
    return static_cast<size_t>(
        std::count_if(run_.timeline.begin(), run_.timeline.end(),
                      [this](const TimelineEntry& entry) { return entry.stage < rows_; }));
  }
  double row_height() const { return rows_ > 32 ? 12 : rows_ > 16 ? 16 : 22; }

  const Layout& layout_;
  const PipelineResult& run_;
  int rows_;
};

std::string Timeline::box(const TimelineEntry& entry, const Scale& x) const {
  const double left = std::max(x.at(entry.begin), kPlotLeft);
  const double right = std::min(x.at(entry.end), kPlotLeft + kPlotWidth);
  const double height = row_height();
  const double width = std::max(right - left, 0.3);
  const double y = kRowsTop + entry.stage * height;
  // Later chunks are paler.
  const double opacity = 1 - 0.6 * entry.chunk / std::max(layout_.vpp, 1);
  std::string text = fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
      "fill-opacity=\"{:.2f}\" data-tip=\"{} of micro-batch {}{}, stage {}: {} to {}\"/>",
      entry.forward ? "f" : "b", left, y + 1, width, height - 2, opacity,
      entry.forward ? "forward" : "backward", entry.microbatch,
      layout_.vpp > 1 ? fmt::format(", chunk {}", entry.chunk) : "", entry.stage,
      format_seconds(entry.begin), format_seconds(entry.end));
  const std::string label = std::to_string(entry.microbatch);
  if (width > 7.0 * static_cast<double>(label.size()) + 3 && height > 14) {
    text += fmt::format("<text class=\"in\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", left + width / 2,
                        y + height / 2 + 3.5, label);
  }
  return text + "\n";
}

std::string Timeline::panel(const Window& window) const {
  const double bottom = kRowsTop + rows_ * row_height();
  const Scale x{.low = window.begin, .high = window.end, .begin = kPlotLeft, .length = kPlotWidth};
  std::string text =
      fmt::format("<svg class=\"timeline\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n",
                  kPlotLeft + kPlotWidth + 20, bottom + 34);
  // Labels of rows need 11 pixels each.
  const int every = row_height() < 14 ? 2 : 1;
  for (int stage = 0; stage < rows_; ++stage) {
    const double y = kRowsTop + stage * row_height();
    text += fmt::format(
        "<rect class=\"idle\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
        kPlotLeft, y + 1, kPlotWidth, row_height() - 2);
    if (stage % every == 0) {
      text += fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">stage {}</text>\n",
                          kPlotLeft - 6, y + row_height() / 2 + 4, stage);
    }
  }
  for (const TimelineEntry& entry : run_.timeline) {
    if (entry.stage < rows_ && entry.end > window.begin && entry.begin < window.end) {
      text += box(entry, x);
    }
  }
  for (const double tick : axis_ticks(x, 8)) {
    text += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mid\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        x.at(tick), bottom, bottom + 4, bottom + 16, tick_text(tick));
  }
  return text + fmt::format("<text class=\"mid\" x=\"{:.1f}\" y=\"{:.1f}\">seconds</text></svg>\n",
                            kPlotLeft + kPlotWidth / 2, bottom + 31);
}

std::string Timeline::caption(bool whole, const Window& window) const {
  std::string text = fmt::format(
      "The schedule as simulated, {}: forward and backward of every micro-batch; grey is waiting. "
      "The optimizer and exposed gradient reductions come after it.",
      format_seconds(run_.seconds));
  if (layout_.vpp > 1) {
    text += fmt::format(" Paler: later ones of the {} chunks of a stage.", layout_.vpp);
  }
  if (rows_ < layout_.pp) {
    text += fmt::format(" Of {} stages the first {} are drawn.", layout_.pp, rows_);
  }
  if (!whole) {
    text +=
        fmt::format(" Of the step its first and last {} are drawn.", format_seconds(window.end));
  }
  return "<p class=\"caption\">" + html_escaped(text) + "</p>\n";
}

std::string Timeline::text() const {
  const auto count = static_cast<double>(boxes());
  const double most =
      static_cast<double>(std::min(kMostBoxes, kMostRowBoxes * static_cast<size_t>(rows_)));
  const bool whole = count <= most;
  Window first{0, run_.seconds};
  if (!whole) {
    first.end = run_.seconds * most / 2 / count;
  }
  std::string text = panel(first);
  if (!whole) {
    text += panel({run_.seconds - first.end, run_.seconds});
  }
  return text + caption(whole, first) +
         legend_html({{"forward", "var(--f)"}, {"backward", "var(--b)"}});
}

}  // namespace

std::string timeline_figure(const TrainJob& job, const Cluster& cluster) {
  const StageSplit split = stage_split(job, section_counts(job));
  const TimeParts parts = time_parts(job, cluster, time_costs(job, cluster), split);
  const PipelineResult run =
      simulate_pipeline(schedule_options(job), pipeline_costs(job, parts), true);
  return Timeline(job, run).text();
}

}  // namespace plait
