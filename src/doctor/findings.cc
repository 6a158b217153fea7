#include "doctor/findings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/statistics.h"
#include "base/text.h"
#include "doctor/chars.h"
#include "doctor/checks.h"
#include "doctor/event_codes.h"
#include "doctor/log_line.h"
#include "doctor/processes.h"

namespace plait {
namespace {

constexpr int64_t kNearLines = 60;

// Where each pattern was found.
class HitIndex {
 public:
  HitIndex(const std::vector<ScannedFile>& files, size_t num_patterns)
      : files_(files), places_(num_patterns) {
    for (size_t f = 0; f < files.size(); ++f) {
      for (size_t l = 0; l < files[f].lines.size(); ++l) {
        for (const LogHit& hit : files[f].lines[l].hits) {
          places_[static_cast<size_t>(hit.pattern)].push_back({f, l});
        }
      }
    }
  }
  const std::vector<LinePlace>& places(int pattern) const {
    return places_[static_cast<size_t>(pattern)];
  }
  const LogLine& line(const LinePlace& place) const { return files_[place.file].lines[place.line]; }

  // The occurrence nearest to `center` that `scope` allows; null if there is none.
  const LinePlace* nearest(int pattern, const LinePlace& center, RuleScope scope) const {
    const std::vector<LinePlace>& all = places(pattern);  // by file, then line
    const auto in_file =
        std::lower_bound(all.begin(), all.end(), center.file,
                         [](const LinePlace& place, size_t file) { return place.file < file; });
    const LinePlace* best = nullptr;
    int64_t best_distance = scope == RuleScope::kLine   ? 1
                            : scope == RuleScope::kNear ? kNearLines + 1
                                                        : INT64_MAX;
    for (auto place = in_file; place != all.end() && place->file == center.file; ++place) {
      const int64_t distance = std::abs(line(*place).number - line(center).number);
      if (distance < best_distance) {
        best = &*place;
        best_distance = distance;
      }
    }
    return best == nullptr && scope == RuleScope::kJob && !all.empty() ? all.data() : best;
  }

 private:
  const std::vector<ScannedFile>& files_;
  std::vector<std::vector<LinePlace>> places_;
};

void add_captures(const LogLine& line, int pattern, Captures& captures) {
  for (const LogHit& hit : line.hits) {
    if (hit.pattern == pattern) {
      captures.insert(hit.captures.begin(), hit.captures.end());
    }
  }
}

bool has_hit(const LogLine& line, int pattern) {
  return std::ranges::any_of(line.hits, [&](const LogHit& hit) { return hit.pattern == pattern; });
}

bool is_warning(const LogLine& line) {
  static constexpr std::string_view kPassedOver[] = {
      "ignore this",    "can ignore",       "can be ignored", "safely ignore",
      "you may ignore", "will be disabled", "alling back to"};
  const char level = line.origin.level;
  return level == 'W' || level == 'I' || level == 'D' ||
         std::ranges::any_of(kPassedOver, [&](std::string_view word) {
           return line.text.find(word) != std::string::npos;
         });
}

class RuleMatcher {
 public:
  RuleMatcher(const HitIndex& index, const RuleSet& rules, FindingList& result)
      : index_(index), rules_(rules), result_(result) {}

  void match(const FaultRule& rule) {
    first_of_.clear();
    for (const int pattern : rule.any) {
      for (const LinePlace& place : index_.places(pattern)) {
        match_at(rule, pattern, place);
      }
    }
  }

 private:
  void match_at(const FaultRule& rule, int pattern, const LinePlace& place) {
    Finding finding;
    finding.rule = &rule;
    finding.places = {place};
    finding.origin = index_.line(place).origin;
    add_captures(index_.line(place), pattern, finding.captures);
    const std::string reason = why_not(finding);
    if (!reason.empty()) {
      result_.rejections.push_back({&rule, place, reason});
      return;
    }
    if (rule.rumour != nullptr && is_warning(index_.line(place))) {
      finding.rule = rule.rumour.get();
    }
    const auto key = std::make_tuple(place.file, finding.origin.rank, finding.rule->is_rumour);
    const auto [slot, is_new] = first_of_.try_emplace(key, result_.findings.size());
    if (is_new) {
      result_.findings.push_back(std::move(finding));
      return;
    }
    Finding& first = result_.findings[slot->second];
    const int64_t count = first.count + 1;
    if (place.line < first.places[0].line) {
      first = std::move(finding);
    }
    first.count = count;
  }

  // Empty if the rule holds around finding.places[0], whose other places and words are added.
  std::string why_not(Finding& finding) const {
    const FaultRule& rule = *finding.rule;
    const LinePlace center = finding.places[0];
    for (const int pattern : rule.none) {
      if (const LinePlace* place = index_.nearest(pattern, center, rule.scope)) {
        return "'" + rules_.patterns()[static_cast<size_t>(pattern)].text() + "' in line " +
               std::to_string(index_.line(*place).number);
      }
    }
    for (const std::vector<int>& choices : rule.all) {
      const LinePlace* found = nullptr;
      for (size_t i = 0; i < choices.size() && found == nullptr; ++i) {
        found = index_.nearest(choices[i], center, rule.scope);
        if (found != nullptr) {
          add_captures(index_.line(*found), choices[i], finding.captures);
        }
      }
      if (found == nullptr) {
        return "no '" + rules_.patterns()[static_cast<size_t>(choices[0])].text() + "' with it";
      }
      add_place(*found, finding);
    }
    for (const int pattern : rule.also) {
      const LinePlace* found = index_.nearest(pattern, center, RuleScope::kNear);
      if (found != nullptr) {
        add_captures(index_.line(*found), pattern, finding.captures);
        add_place(*found, finding);
      }
    }
    add_event_words(finding.captures);
    if (!rule.check.empty() && !holds(rule.check, finding.captures)) {
      return "the numbers do not say so";
    }
    return "";
  }

  static void add_place(const LinePlace& place, Finding& finding) {
    const bool known =
        std::any_of(finding.places.begin(), finding.places.end(), [&](const LinePlace& other) {
          return other.file == place.file && other.line == place.line;
        });
    if (!known) {
      finding.places.push_back(place);
    }
  }

  const HitIndex& index_;
  const RuleSet& rules_;
  FindingList& result_;
  std::map<std::tuple<size_t, int, bool>, size_t> first_of_;
};

void fill_years(std::vector<ScannedFile>& files) {
  constexpr double kHalfYear = 183.0 * 86400;
  double latest = -1;  // of the lines with a year
  for (const ScannedFile& file : files) {
    for (const LogLine& line : file.lines) {
      if (line.origin.has_year) {
        latest = std::max(latest, line.origin.time);
      }
    }
  }
  for (ScannedFile& file : files) {
    for (LogLine& line : file.lines) {
      if (line.origin.time >= 0 && !line.origin.has_year && latest >= 0) {
        const double time = in_year_of(line.origin.time, latest);
        // A log of December beside one of January.
        line.origin.time =
            time > latest + kHalfYear ? in_year_of(line.origin.time, latest - 2 * kHalfYear) : time;
      }
    }
  }
}

constexpr double kOffClock = 60;  // seconds; less is no clock that is off

// What tells the clocks of files apart.
struct ClockMarks {
  std::map<std::string, double> tags;        // the time-out of each tag
  std::map<std::string, double> dispatches;  // when its operation was called, where HCCL tells it
  std::string process;                       // of the tags
};

ClockMarks marks_of(const ScannedFile& file) {
  ClockMarks marks;
  std::string last_tag;
  for (const LogLine& line : file.lines) {
    for (const LogHit& hit : line.hits) {
      const auto tag = hit.captures.find("sync");
      if (tag != hit.captures.end() && line.origin.time >= 0) {
        last_tag = tag->second;
        marks.tags.try_emplace(last_tag, line.origin.time);
        marks.process = process_of(file, line);
      }
      const auto stamp = hit.captures.find("task_stamp");
      const double time = stamp == hit.captures.end() ? -1 : read_line_origin(stamp->second).time;
      if (time >= 0 && !last_tag.empty()) {
        marks.dispatches.try_emplace(last_tag, time);
      }
    }
  }
  return marks;
}

// Ranks call an operation at about the same moment; a late one times out late on the same clock.
std::vector<double> tag_differences(const ClockMarks& marks, const ClockMarks& reference) {
  std::vector<double> differences;
  for (const auto& [tag, time] : marks.tags) {
    const auto other = reference.tags.find(tag);
    if (other == reference.tags.end()) {
      continue;
    }
    const auto own_call = marks.dispatches.find(tag);
    const auto other_call = reference.dispatches.find(tag);
    const bool has_calls =
        own_call != marks.dispatches.end() && other_call != reference.dispatches.end();
    differences.push_back(has_calls ? own_call->second - other_call->second : time - other->second);
  }
  return differences;
}

// One host has one clock, but its containers may live in different time zones.
bool is_on_one_host(const ScannedFile& a, const ScannedFile& b, double offset) {
  constexpr double kHalfHour = 1800;
  constexpr double kTolerance = 150;  // seconds between the ends of one wait
  const double rest = std::fmod(std::abs(offset), kHalfHour);
  const bool zones = std::abs(offset) > kHalfHour - kTolerance &&
                     (rest < kTolerance || rest > kHalfHour - kTolerance);
  return !zones && !a.lines.empty() && !b.lines.empty() && !a.lines[0].origin.host.empty() &&
         a.lines[0].origin.host == b.lines[0].origin.host;
}

// When each process joined each communicator.
using SetupTimes = std::map<std::string, std::map<std::string, double>>;

SetupTimes setup_times(const std::vector<ScannedFile>& files, const RuleSet& rules) {
  SetupTimes times;
  for (const ScannedFile& file : files) {
    for (const LogLine& line : file.lines) {
      for (const LogHit& hit : line.hits) {
        if (hit.pattern == rules.communicator_pattern() && line.origin.time >= 0) {
          times[process_of(file, line)].try_emplace(hit.captures.at("communicator"),
                                                    line.origin.time);
        }
      }
    }
  }
  return times;
}

// Whether two processes joined a communicator at one time by their clocks.
bool joined_together(const std::string& a, const std::string& b, const SetupTimes& times) {
  const auto mine = times.find(a);
  const auto other = times.find(b);
  return !a.empty() && mine != times.end() && other != times.end() &&
         std::ranges::any_of(mine->second, [&](const auto& setup) {
           const auto same = other->second.find(setup.first);
           return same != other->second.end() && std::abs(setup.second - same->second) < kOffClock;
         });
}

// What lines of torchrun's table say of how a worker ended.
void drop_worker_hits(std::vector<LogLine>::iterator begin, std::vector<LogLine>::iterator end) {
  for (auto line = begin; line != end; ++line) {
    if (line->text.find("exitcode") != std::string::npos ||
        line->text.find("Signal ") != std::string::npos) {
      line->hits.clear();
    }
  }
}

// The end of "{name}" that begins at `open`; npos if it is none.
size_t end_of_name(const std::string& text, size_t open) {
  const size_t end = run_end(text, open + 1, is_word);
  return end > open + 1 && end < text.size() && text[end] == '}' ? end : std::string::npos;
}

}  // namespace

FindingList find_faults(const std::vector<ScannedFile>& files, const RuleSet& rules) {
  const HitIndex index(files, rules.patterns().size());
  FindingList result;
  RuleMatcher matcher(index, rules, result);
  for (const FaultRule& rule : rules.rules()) {
    matcher.match(rule);
  }
  std::stable_sort(result.findings.begin(), result.findings.end(),
                   [](const Finding& a, const Finding& b) {
                     return std::pair(a.places[0].file, a.places[0].line) <
                            std::pair(b.places[0].file, b.places[0].line);
                   });
  return result;
}

std::vector<std::string> apply_collected_clocks(std::vector<ScannedFile>& files,
                                                const RuleSet& rules) {
  constexpr std::string_view kState = "/plait-state/";
  constexpr std::string_view kName = "/plait-state/clock.txt";
  std::vector<std::string> notes;
  for (size_t c = 0; c < files.size(); ++c) {
    if (!files[c].name.ends_with(kName) || files[c].lines.empty()) {
      continue;
    }
    Captures words;
    add_captures(files[c].lines[0], rules.clock_pattern(), words);
    const std::string text = words["clock_offset"];
    double offset = 0;
    const size_t sign = text.starts_with('+') ? 1 : 0;
    std::from_chars(text.data() + sign, text.data() + text.size(), offset);
    const std::string folder = files[c].name.substr(0, files[c].name.size() - kName.size() + 1);
    const std::string host = words["clock_host"];
    for (ScannedFile& file : files) {
      if (host.empty() || !file.name.starts_with(folder)) {
        continue;
      }
      for (LogLine& line : file.lines) {
        line.origin.time -= line.origin.time >= 0 ? offset : 0;
        line.origin.host = line.origin.host.empty() ? host : line.origin.host;
      }
    }
    if (std::abs(offset) >= 1) {
      notes.push_back(fmt::format(
          "the clock of host {} was {:+.1f} s off when its logs were collected", host, offset));
    }
  }
  std::erase_if(
      files, [&](const ScannedFile& file) { return file.name.find(kState) != std::string::npos; });
  return notes;
}

std::vector<std::string> align_clocks(std::vector<ScannedFile>& files, const RuleSet& rules) {
  fill_years(files);
  std::vector<ClockMarks> marks;
  size_t reference = 0;  // the file with most tags
  for (size_t f = 0; f < files.size(); ++f) {
    marks.push_back(marks_of(files[f]));
    if (marks[f].tags.size() > marks[reference].tags.size()) {
      reference = f;
    }
  }
  const SetupTimes setups = setup_times(files, rules);
  std::vector<std::string> notes;
  for (size_t f = 0; f < files.size(); ++f) {
    const std::vector<double> differences =
        f == reference ? std::vector<double>() : tag_differences(marks[f], marks[reference]);
    const double offset = differences.empty() ? 0 : median(differences);
    if (std::abs(offset) < kOffClock || is_on_one_host(files[f], files[reference], offset) ||
        joined_together(marks[f].process, marks[reference].process, setups)) {
      continue;
    }
    for (LogLine& line : files[f].lines) {
      line.origin.time -= line.origin.time >= 0 ? offset : 0;
    }
    notes.push_back(fmt::format("the clock of {} is {:+.0f} s off that of {} ({} common events)",
                                files[f].name, offset, files[reference].name, differences.size()));
  }
  return notes;
}

void drop_ended_workers(std::vector<ScannedFile>& files, const RuleSet& rules) {
  constexpr int64_t kLongestTable = 20000;  // lines, of some thousand workers
  for (ScannedFile& file : files) {
    auto table = file.lines.end();
    for (auto line = file.lines.begin(); line != file.lines.end(); ++line) {
      if (has_hit(*line, rules.torchrun_table_pattern())) {
        table = line;
      } else if (table != file.lines.end() && has_hit(*line, rules.torchrun_root_pattern())) {
        if (line->number - table->number < kLongestTable) {
          drop_worker_hits(table + 1, line);
        }
        table = file.lines.end();
      }
    }
    std::erase_if(file.lines, [](const LogLine& line) { return line.hits.empty(); });
  }
}

std::string filled_in(const std::string& text, const Captures& captures) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t close = text[at] == '{' ? end_of_name(text, at) : std::string::npos;
    if (close == std::string::npos) {
      result += text[at];
      continue;
    }
    const std::string name = text.substr(at + 1, close - at - 1);
    const auto found = captures.find(name);
    const bool in_brackets = result.ends_with(" (") && text.compare(close + 1, 1, ")") == 0;
    if (found != captures.end()) {
      result += trimmed(found->second, " ,.");
    } else if (in_brackets) {
      result.resize(result.size() - 2);
    } else {
      // Commands take a device by its number: N stands for the one that nobody named.
      result += name == "g_device" ? "N" : "(not told)";
    }
    at = close + (found == captures.end() && in_brackets ? 1 : 0);  // and the closing bracket
  }
  return result;
}

}  // namespace plait
