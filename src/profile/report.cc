// The analysis as a page of text, as JSON, and beside another one.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json_full.h"
#include "base/printable.h"
#include "profile/analysis.h"

namespace plait {
namespace {

constexpr size_t kMostOperators = 10;
constexpr size_t kMostNotes = 8;

struct Part {
  const char* name;
  char mark;
  double ms;
};

std::vector<Part> parts_of(const StepSplit& mean) {
  return {{"compute", '#', std::max(mean.computing - mean.overlapped, 0.0) * kMsPerUs},
          {"compute with hidden communication", '%', mean.overlapped * kMsPerUs},
          {"exposed communication", '=', std::max(mean.exposed - mean.bubble, 0.0) * kMsPerUs},
          {"pipeline bubble", '-', mean.bubble * kMsPerUs},
          {"free (device idle)", '.', mean.free * kMsPerUs}};
}

std::string bar(const std::vector<Part>& parts, double step, int width) {
  std::string text;
  double end = 0;
  for (const Part& part : parts) {
    end += part.ms;
    const auto columns = static_cast<size_t>(std::lround(step > 0 ? end / step * width : 0));
    text.resize(std::max(std::min(columns, static_cast<size_t>(width)), text.size()), part.mark);
  }
  return "|" + text + "|\n";
}

std::string split_text(const Analysis& a, int width) {
  const double step = a.mean.stage * kMsPerUs;
  std::string text = fmt::format("mean step {:.1f} ms\n", step);
  const std::vector<Part> parts = parts_of(a.mean);
  text += bar(parts, step, width);
  for (const Part& part : parts) {
    if (part.ms > 0) {
      text += fmt::format("  {} {:<34}{:>9.1f} ms {:>5.1f} %\n", part.mark, part.name, part.ms,
                          step > 0 ? 100 * part.ms / step : 0);
    }
  }
  return text;
}

std::string spread_text(const Analysis& a) {
  std::string text = fmt::format("\n{:<24}{:>9}{:>9}{:>9}  {}\n", "over ranks, ms", "least",
                                 "median", "most", "rank with most");
  const std::pair<const char*, const Spread*> rows[] = {{"step", &a.step},
                                                        {"compute", &a.computing},
                                                        {"exposed communication", &a.exposed},
                                                        {"bubble", &a.bubble},
                                                        {"free", &a.free}};
  for (const auto& [name, s] : rows) {
    if (s->most > 0) {
      text += fmt::format("{:<24}{:>9.1f}{:>9.1f}{:>9.1f}  {}\n", name, s->least, s->median,
                          s->most, s->most_rank);
    }
  }
  return text;
}

std::string operators_text(const Analysis& a) {
  if (a.operators.empty()) {
    return "";
  }
  std::string text = fmt::format("\n{:<36}{:<16}{:>8}{:>9}{:>9}{:>11}\n", "operators", "core",
                                 "share", "ms/step", "count", "mean us");
  for (size_t i = 0; i < std::min(kMostOperators, a.operators.size()); ++i) {
    const OperatorShare& op = a.operators[i];
    const std::string ms = a.mean.stage > 0 ? fmt::format("{:.1f}", op.ms_per_step) : "?";
    text +=
        fmt::format("{:<36}{:<16}{:>6.1f} %{:>9}{:>9}{:>11.1f}\n", printable(op.type.substr(0, 35)),
                    printable(op.core.substr(0, 15)), 100 * op.share, ms, op.count, op.mean_us);
  }
  return text;
}

std::string links_text(const Analysis& a) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, a.slow_links.size()); ++i) {
    const LinkSpeed& link = a.slow_links[i];
    text += fmt::format("{}slow link {} -> {}: {:.1f} GB/s, others of {} {:.1f} GB/s\n",
                        i == 0 ? "\n" : "", link.source, link.destination, link.gb_per_s,
                        printable(link.transport), link.typical);
  }
  return text;
}

std::string advice_text(const Analysis& a) {
  if (a.mean.stage <= 0) {
    return "\nno advice: these files do not say how long a step is; step_trace_time.csv, "
           "analysis.db "
           "and trace_view.json do\n";
  }
  if (a.advice.empty()) {
    return "\nnothing stands out: compute fills the step\n";
  }
  std::string text = "\nwhat would help, largest first (gains of a step, at most; they overlap)\n";
  int number = 0;
  for (const Advice& one : a.advice) {
    text += fmt::format("{}. {}{}\n   {}\n   -> {}\n", ++number, printable(one.title),
                        one.gain_ms > 0 ? fmt::format(": ~{:.1f} ms", one.gain_ms) : "",
                        printable(one.arithmetic), one.action);
  }
  return text;
}

Json spread_json(const Spread& s) {
  return {{"least", s.least}, {"median", s.median}, {"most", s.most}, {"most_rank", s.most_rank}};
}

Json split_json(const StepSplit& s) {
  return {{"step", s.stage * kMsPerUs},
          {"computing", s.computing * kMsPerUs},
          {"exposed_communication", std::max(s.exposed - s.bubble, 0.0) * kMsPerUs},
          {"overlapped_communication", s.overlapped * kMsPerUs},
          {"bubble", s.bubble * kMsPerUs},
          {"free", s.free * kMsPerUs},
          {"preparing", s.preparing * kMsPerUs}};
}

struct Change {
  std::string name;
  double before = 0, after = 0;
};

std::vector<Change> changes(const Analysis& before, const Analysis& after) {
  std::vector<Change> list;
  const std::vector<Part> a = parts_of(before.mean), b = parts_of(after.mean);
  for (size_t i = 0; i < a.size(); ++i) {
    list.push_back({a[i].name, a[i].ms, b[i].ms});
  }
  std::map<std::string, Change> operators;
  for (const OperatorShare& op : before.operators) {
    operators[op.type].before = op.ms_per_step;
  }
  for (const OperatorShare& op : after.operators) {
    operators[op.type].after = op.ms_per_step;
  }
  std::vector<Change> by_operator;
  for (auto& [type, change] : operators) {
    change.name = "operator " + type;
    by_operator.push_back(change);
  }
  const auto larger = [](const Change& x, const Change& y) {
    return std::abs(x.after - x.before) > std::abs(y.after - y.before);
  };
  std::stable_sort(list.begin(), list.end(), larger);
  std::stable_sort(by_operator.begin(), by_operator.end(), larger);
  by_operator.resize(std::min(by_operator.size(), kMostOperators));
  list.insert(list.end(), by_operator.begin(), by_operator.end());
  return list;
}

}  // namespace

std::string profile_text(const Profile& profile, const Analysis& analysis, int width) {
  const std::string steps = analysis.steps == 0 ? "steps unknown"
                            : analysis.steps == 1
                                ? "1 step"
                                : fmt::format("{} steps (the first is left out)", analysis.steps);
  std::string text = fmt::format("{} rank{}, {}\n", profile.ranks.size(),
                                 profile.ranks.size() == 1 ? "" : "s", steps);
  if (analysis.mean.stage > 0) {
    text += split_text(analysis, width);
    text += profile.ranks.size() > 1 ? spread_text(analysis) : "";
  }
  text += operators_text(analysis) + links_text(analysis) + advice_text(analysis);
  for (size_t i = 0; i < std::min(kMostNotes, profile.notes.size()); ++i) {
    text += fmt::format("{}note: {}\n", i == 0 ? "\n" : "", printable(profile.notes[i]));
  }
  if (profile.notes.size() > kMostNotes) {
    text += fmt::format("note: and {} more of the kind (--json lists all)\n",
                        profile.notes.size() - kMostNotes);
  }
  return text;
}

std::string profile_json(const Profile& profile, const Analysis& analysis) {
  Json ranks = Json::array(), operators = Json::array(), links = Json::array();
  for (const RankProfile& rank : profile.ranks) {
    Json one = {{"rank", rank.rank}, {"source", rank.source}, {"steps", rank.steps}};
    one["split_ms"] = split_json(rank.split);
    ranks.push_back(std::move(one));
  }
  for (const OperatorShare& op : analysis.operators) {
    operators.push_back({{"type", op.type},
                         {"core", op.core},
                         {"share", op.share},
                         {"ms_per_step", op.ms_per_step},
                         {"count", op.count},
                         {"mean_us", op.mean_us}});
  }
  for (const LinkSpeed& link : analysis.slow_links) {
    links.push_back({{"source", link.source},
                     {"destination", link.destination},
                     {"transport", link.transport},
                     {"gb_per_s", link.gb_per_s},
                     {"typical_gb_per_s", link.typical}});
  }
  Json advice = Json::array();
  for (const Advice& one : analysis.advice) {
    advice.push_back({{"title", one.title},
                      {"gain_ms", one.gain_ms},
                      {"arithmetic", one.arithmetic},
                      {"action", one.action}});
  }
  return dump_json({{"mean_ms", split_json(analysis.mean)},
                    {"spread_ms",
                     {{"step", spread_json(analysis.step)},
                      {"computing", spread_json(analysis.computing)},
                      {"exposed_communication", spread_json(analysis.exposed)},
                      {"bubble", spread_json(analysis.bubble)},
                      {"free", spread_json(analysis.free)}}},
                    {"operators", std::move(operators)},
                    {"slow_links", std::move(links)},
                    {"advice", std::move(advice)},
                    {"ranks", std::move(ranks)},
                    {"notes", profile.notes}},
                   2);
}

std::string diff_text(const Analysis& before, const Analysis& after) {
  const double a = before.mean.stage * kMsPerUs, b = after.mean.stage * kMsPerUs;
  std::string text = fmt::format("step {:.1f} -> {:.1f} ms ({:+.1f} ms, {:+.1f} %)\n", a, b, b - a,
                                 a > 0 ? 100 * (b - a) / a : 0);
  text += fmt::format("{:<44}{:>10}{:>10}{:>10}\n", "ms a step", "before", "after", "change");
  for (const Change& change : changes(before, after)) {
    if (change.before > 0 || change.after > 0) {
      text +=
          fmt::format("{:<44}{:>10.2f}{:>10.2f}{:>+10.2f}\n", printable(change.name.substr(0, 43)),
                      change.before, change.after, change.after - change.before);
    }
  }
  return text;
}

std::string diff_json(const Analysis& before, const Analysis& after) {
  Json list = Json::array();
  for (const Change& change : changes(before, after)) {
    list.push_back({{"name", change.name},
                    {"before_ms", change.before},
                    {"after_ms", change.after},
                    {"change_ms", change.after - change.before}});
  }
  return dump_json({{"before", split_json(before.mean)},
                    {"after", split_json(after.mean)},
                    {"changes", std::move(list)}},
                   2);
}

}  // namespace plait
