#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/html/figures.h"
#include "plan/report.h"

namespace plait {
namespace {

constexpr double kBarsTop = 20;
constexpr size_t kMostBars = 60;

// Bytes of a category; fragmentation is what the peak has beyond the categories.
struct Category {
  const char* name;
  const char* colour;
  double StageBytes::*bytes;
};
constexpr std::array<Category, 7> kCategories = {{
    {"weights", "#4e79a7", &StageBytes::weights},
    {"gradients", "#f28e2b", &StageBytes::gradients},
    {"optimizer", "#59a14f", &StageBytes::optimizer},
    {"activations", "#e15759", &StageBytes::activations},
    {"logits", "#b07aa1", &StageBytes::logits},
    {"temporaries", "#9c755f", &StageBytes::transient},
    {"communication", "#76b7b2", &StageBytes::comm},
}};
constexpr const char* kFragmentColour = "#a0a0a0";

std::string stage_bar(const StageMemoryPlan& stage, const Scale& x, double y, double height) {
  std::string text;
  double sum = 0;
  const auto add = [&](const char* name, const char* colour, double bytes) {
    if (bytes <= 0) {
      return;
    }
    text += fmt::format(
        "<rect class=\"m\" fill=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" "
        "height=\"{:.1f}\" data-tip=\"stage {}: {} {}\"/>\n",
        colour, x.at(sum / kGiB), y + 2, x.at((sum + bytes) / kGiB) - x.at(sum / kGiB), height - 4,
        stage.stage, name, bytes_text(bytes));
    sum += bytes;
  };
  for (const Category& category : kCategories) {
    add(category.name, category.colour, stage.bytes.*category.bytes);
  }
  add("fragmentation (expected)", kFragmentColour, stage.peak.best - sum);
  const double middle = y + height / 2;
  text += fmt::format(
      "<path class=\"range\" d=\"M{0:.1f} {1:.1f}H{2:.1f}M{0:.1f} {3:.1f}V{4:.1f}M{2:.1f} "
      "{3:.1f}V{4:.1f}\" data-tip=\"stage {5}: peak {6}, between {7} and {8}: {9}\"/>\n",
      x.at(stage.peak.low / kGiB), middle, x.at(stage.peak.high / kGiB), middle - height / 4,
      middle + height / 4, stage.stage, bytes_text(stage.peak.best), bytes_text(stage.peak.low),
      bytes_text(stage.peak.high), fit_name(stage.fit));
  return text;
}

}  // namespace

std::string memory_figure(const Estimate& estimate) {
  const size_t rows = std::min(estimate.stages.size(), kMostBars);
  double most = estimate.capacity / kGiB;
  for (const StageMemoryPlan& stage : estimate.stages) {
    most = std::max(most, stage.peak.high / kGiB);
  }
  const Scale x{.low = 0, .high = most * 1.03, .begin = kPlotLeft, .length = kPlotWidth};
  const double height = rows > 32 ? 12 : rows > 16 ? 16 : 24;
  const double bottom = kBarsTop + static_cast<double>(rows) * height;
  std::string text =
      fmt::format("<svg class=\"memory\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n",
                  kPlotLeft + kPlotWidth + 20, bottom + 34);
  const size_t every = height < 14 ? 2 : 1;
  for (size_t row = 0; row < rows; ++row) {
    const double y = kBarsTop + static_cast<double>(row) * height;
    if (row % every == 0) {
      text += fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">stage {}</text>\n",
                          kPlotLeft - 6, y + height / 2 + 4, estimate.stages[row].stage);
    }
    text += stage_bar(estimate.stages[row], x, y, height);
  }
  for (const double tick : axis_ticks(x, 8)) {
    text += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mid\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        x.at(tick), bottom, bottom + 4, bottom + 16, tick_text(tick));
  }
  const double limit = x.at(estimate.capacity / kGiB);
  text += fmt::format(
      "<line class=\"limit\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
      "<text class=\"limit end\" x=\"{0:.1f}\" y=\"{3:.1f}\">usable {4}</text>"
      "<text class=\"mid\" x=\"{5:.1f}\" y=\"{6:.1f}\">GiB</text></svg>\n",
      limit, kBarsTop - 4, bottom, kBarsTop - 8, bytes_text(estimate.capacity),
      kPlotLeft + kPlotWidth / 2, bottom + 31);
  std::string caption = "Bytes on each rank at the peak; the bracket is the range of the peak.";
  if (rows < estimate.stages.size()) {
    caption += fmt::format(" Of {} stages the first {} are drawn; the fullest is stage {}.",
                           estimate.stages.size(), rows, estimate.worst_stage().stage);
  }
  std::vector<LegendEntry> legend;
  for (const Category& category : kCategories) {
    if (std::any_of(estimate.stages.begin(), estimate.stages.end(),
                    [&](const StageMemoryPlan& s) { return s.bytes.*category.bytes > 0; })) {
      legend.push_back({category.name, category.colour});
    }
  }
  if (text.find(kFragmentColour) != std::string::npos) {
    legend.push_back({"fragmentation", kFragmentColour});
  }
  return text + "<p class=\"caption\">" + html_escaped(caption) + "</p>\n" + legend_html(legend);
}

std::string time_figure(const StepTime& time) {
  struct Part {
    const char* name;
    const char* colour;
    double seconds;
  };
  const Part parts[] = {{"compute", "#4e79a7", time.compute - time.recompute},
                        {"recomputation", "#a0cbe8", time.recompute},
                        {"tp collectives", "#f28e2b", time.tp_exposed},
                        {"cp collectives", "#ffbe7d", time.cp_exposed},
                        {"ep all-to-all", "#b07aa1", time.ep_exposed},
                        {"dp reduction and gather", "#59a14f", time.dp_exposed},
                        {"pp messages", "#76b7b2", time.pp_exposed},
                        {"pipeline bubble", "#a0a0a0", time.bubble},
                        {"optimizer", "#edc948", time.optimizer},
                        {"waiting for launches", "#e15759", time.host}};
  const Scale x{.low = 0, .high = time.step.best, .begin = 10, .length = 1080};
  std::string text = "<svg class=\"time\" viewBox=\"0 0 1100 44\" role=\"img\">\n";
  std::vector<LegendEntry> legend;
  double sum = 0;
  for (const Part& part : parts) {
    if (part.seconds <= 0) {
      continue;
    }
    const double width = x.at(sum + part.seconds) - x.at(sum);
    const std::string share = fmt::format("{:.1f} %", 100 * part.seconds / time.step.best);
    text += fmt::format(
        "<rect class=\"m\" fill=\"{}\" x=\"{:.1f}\" y=\"6\" width=\"{:.2f}\" height=\"32\" "
        "data-tip=\"{}: {} ({})\"/>\n",
        part.colour, x.at(sum), width, part.name, format_seconds(part.seconds), share);
    if (width > 56) {
      text += fmt::format("<text class=\"in\" x=\"{:.1f}\" y=\"26\">{}</text>\n",
                          x.at(sum) + width / 2, share);
    }
    legend.push_back({fmt::format("{} {}", part.name, format_seconds(part.seconds)), part.colour});
    sum += part.seconds;
  }
  return text + "</svg>\n<p class=\"caption\">" +
         html_escaped(
             fmt::format("A step on the slowest stage: {} (between {} and {}). Traffic that "
                         "compute hides is not in it.",
                         format_seconds(time.step.best), format_seconds(time.step.low),
                         format_seconds(time.step.high))) +
         "</p>\n" + legend_html(legend);
}

}  // namespace plait
