#include "doctor/diagnosis.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "doctor/failed_tasks.h"
#include "doctor/flight_reading.h"
#include "doctor/jobs.h"
#include "doctor/numbers.h"
#include "doctor/processes.h"
#include "doctor/verdict.h"
#include "doctor/waits.h"
#include "doctor/watchdog_reading.h"

namespace plait {
namespace {

constexpr size_t kMaxEvidence = 6;
constexpr size_t kMaxRuledOut = 8;
constexpr const char* kLogOfAllRanks = "watchdogs of all ranks";

class DiagnosisMaker {
 public:
  DiagnosisMaker(const std::vector<ScannedFile>& files, const RuleSet& rules)
      : files_(files), rules_(rules) {}

  Diagnosis make() {
    list_ = find_faults(files_, rules_);
    classes_ = group_by_class(list_.findings);
    verdict_ = choose_root(classes_);
    if (verdict_.root < 0) {
      say_nothing_found();
      return std::move(result_);
    }
    find_teller();
    const FaultClass& root = classes_[static_cast<size_t>(verdict_.root)];
    say_root();
    say_guilty(root);
    add_evidence(root);
    add_chain(root);
    add_ruled_out(root);
    return std::move(result_);
  }

 private:
  void say_nothing_found() {
    result_.cause = "no known fault is in these logs";
    result_.fix =
        "Collect the logs of every rank (plait doctor collect, or ~/ascend/log of all hosts, the "
        "console output, dmesg -T, npu-smi info) and read them together: the rank that reports "
        "nothing, or stopped first, is the one to look at.";
    result_.verify =
        "Set ASCEND_GLOBAL_LOG_LEVEL=1 and ASCEND_GLOBAL_EVENT_ENABLE=1, repeat the "
        "run, and run plait doctor logs on the new logs.";
  }

  // What was concluded from the lines of all ranks names the guilty by itself.
  bool is_conclusion(const Finding& finding) const {
    return files_[finding.places[0].file].name == kLogOfAllRanks;
  }

  // Of the ranks that wait, the one that waits for the guilty itself has the word, and not one that
  // waits for another waiting rank.
  void find_teller() {
    const FaultClass& root = classes_[static_cast<size_t>(verdict_.root)];
    teller_ = root.first;
    if (root.rule->role == FaultRole::kCause || is_conclusion(*root.first)) {
      return;
    }
    waited_ = find_waited_for(files_, list_.findings);
    const Captures& words = root.first->captures;
    const auto rank = number_of(words, "g_rank");
    const bool names_waiting =
        rank && *rank < INT32_MAX && !waited_.named.contains(static_cast<int>(*rank));
    const bool names_nobody = !rank && !words.contains("g_host") && !words.contains("g_device");
    if (root.rule->role != FaultRole::kSymptom || waited_.told_by == nullptr ||
        !(names_waiting || names_nobody)) {
      return;
    }
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (std::ranges::find(classes_[i].all, waited_.told_by) != classes_[i].all.end()) {
        verdict_.root = static_cast<int>(i);
        teller_ = waited_.told_by;
      }
    }
  }

  void say_root() {
    const FaultRule& rule = *teller_->rule;
    const bool settled =
        rule.role != FaultRole::kConsequence || rule.is_rumour || rule.is_last_resort;
    result_.name = settled ? rule.name : "unknown";
    result_.cause = printable(filled_in(rule.cause, teller_->captures));
    result_.fix = printable(filled_in(rule.fix, teller_->captures));
    result_.verify = printable(filled_in(rule.verify, teller_->captures));
    if (result_.verify.empty()) {
      result_.verify =
          "Start again and run plait doctor logs on the new logs: this line must be "
          "gone and no other in its place.";
    }
    result_.source = rule.source;
    result_.confidence = settled ? rule.confidence : Confidence::kLow;
    if (verdict_.rival_is_close && result_.confidence == Confidence::kHigh) {
      result_.confidence = Confidence::kMedium;
    }
  }

  bool made_others_wait(const FaultClass& root) const {
    return std::ranges::any_of(classes_, [&](const FaultClass& other) {
      return other.rule->role == FaultRole::kSymptom && explains(root, other);
    });
  }

  void say_guilty(const FaultClass& root) {
    const Finding& first = *teller_;
    const auto captured = [&](const char* name) {
      const auto found = first.captures.find(name);
      // HCCL prints an unknown rank as the largest 32-bit number.
      const bool told = found != first.captures.end() && found->second != "4294967295";
      return told ? printable(found->second) : std::string();
    };
    Guilty& guilty = result_.guilty;
    guilty = {captured("g_host"), captured("g_rank"), captured("g_device")};
    while (!guilty.rank.empty() && guilty.rank.back() == ',') {
      guilty.rank.pop_back();
    }
    const bool names_other = !guilty.host.empty() || !guilty.rank.empty();
    // An exception says nothing of whose fault it is, unless others waited for that process.
    const bool made_wait = root.rule->is_last_resort && made_others_wait(root);
    if ((root.rule->role == FaultRole::kCause || made_wait) && !names_other) {
      guilty.host = printable(first.origin.host);
      guilty.rank = first.origin.rank < 0 ? "" : std::to_string(first.origin.rank);
      if (guilty.device.empty() && first.origin.device >= 0) {
        guilty.device = std::to_string(first.origin.device);
      }
    }
    const bool is_told = made_wait && !guilty.rank.empty();
    if (!is_told && !waited_.rank.empty()) {
      guilty.rank = waited_.rank;
      guilty.host = waited_.host.empty() ? guilty.host : printable(waited_.host);
      guilty.device = waited_.device.empty() ? guilty.device : printable(waited_.device);
      result_.cause += "; " + waited_.reason;
    }
  }

  Evidence evidence_at(const LinePlace& place) const {
    const ScannedFile& file = files_[place.file];
    const LogLine& line = file.lines[place.line];
    return {printable(file.name), line.number, printable(line.text)};
  }

  void add_evidence(const FaultClass& root) {
    std::set<std::pair<size_t, size_t>> seen;
    const auto add = [&](const Finding& finding) {
      for (const LinePlace& place : finding.places) {
        if (result_.evidence.size() < kMaxEvidence &&
            seen.insert({place.file, place.line}).second) {
          result_.evidence.push_back(evidence_at(place));
        }
      }
    };
    add(*teller_);
    for (const Finding* finding : root.all) {
      add(*finding);
    }
  }

  static std::string who(const LineOrigin& origin) {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    if (origin.rank >= 0) {
      add("rank " + std::to_string(origin.rank));
    }
    if (origin.device >= 0) {
      add("device " + std::to_string(origin.device));
    }
    if (!origin.host.empty()) {
      add("host " + printable(origin.host));
    }
    if (text.empty() && origin.pid >= 0) {
      add("pid " + std::to_string(origin.pid));
    }
    return text;
  }

  void add_chain(const FaultClass& root) {
    const auto link = [&](const FaultClass& group) {
      const LineOrigin& origin = group.first->origin;
      return ChainLink{group.rule->name,
                       fault_role_name(group.rule->role),
                       evidence_at(group.first->places[0]).text,
                       who(origin),
                       origin.time,
                       group.count};
    };
    for (const FaultClass& group : classes_) {
      // Where one rank waits for another that waits, both waits are of one chain.
      const bool is_of_graph = waited_.told_by != nullptr &&
                               group.rule->role == FaultRole::kSymptom &&
                               group.first->captures.contains("g_rank");
      if (&group != &root && (is_of_graph || explains(root, group))) {
        result_.chain.push_back(link(group));
      }
    }
    std::stable_sort(result_.chain.begin(), result_.chain.end(),
                     [](const ChainLink& a, const ChainLink& b) {
                       return a.time >= 0 && b.time >= 0 && a.time < b.time;
                     });
    result_.chain.insert(result_.chain.begin(), link(root));
  }

  void add_ruled_out(const FaultClass& root) {
    std::set<std::string> named = {root.rule->name};
    for (const ChainLink& link : result_.chain) {
      named.insert(link.name);
    }
    const auto add = [&](const std::string& name, const std::string& reason) {
      if (result_.ruled_out.size() < kMaxRuledOut && named.insert(name).second) {
        result_.ruled_out.push_back({name, printable(reason)});
      }
    };
    for (const int index : verdict_.rivals) {
      const FaultClass& group = classes_[static_cast<size_t>(index)];
      const bool later = began_later(*group.first, *root.first, 0);
      add(group.rule->name, later ? "it came later" : "its text says less about the cause");
    }
    for (const FaultClass& group : classes_) {
      add(group.rule->name, "something else in these logs explains it");
    }
    for (const Rejection& rejection : list_.rejections) {
      if (rejection.rule->role == FaultRole::kCause) {
        add(rejection.rule->name, rejection.reason);
      }
    }
  }

  const std::vector<ScannedFile>& files_;
  const RuleSet& rules_;
  FindingList list_;
  std::vector<FaultClass> classes_;
  Verdict verdict_;
  WaitedFor waited_;
  const Finding* teller_ = nullptr;  // of the root's class: whose words are told
  Diagnosis result_;
};

std::string flight_text(const std::vector<ScannedFile>& files) {
  std::vector<FlightLog> logs;
  for (const ScannedFile& file : files) {
    if (!file.flight.empty()) {
      logs.push_back(read_flight_log(file.flight));
    }
  }
  return describe_flights(logs);
}

// What was read from several files together becomes one more log.
void add_log(std::vector<ScannedFile>& files, const std::string& text, const char* name,
             const RuleSet& rules) {
  if (!text.empty()) {
    files.push_back(scan_text(text, name, rules));
  }
}

std::vector<std::string> prepare(std::vector<ScannedFile>& files, const RuleSet& rules) {
  add_log(files, flight_text(files), "flight records", rules);
  std::vector<std::string> notes;
  for (const std::string& note : apply_collected_clocks(files, rules)) {
    notes.push_back(printable(note));
  }
  name_processes(files, rules);
  drop_ended_workers(files, rules);
  for (const std::string& note : align_clocks(files, rules)) {
    notes.push_back(printable(note));
  }
  add_log(files, describe_watchdogs(files, rules) + describe_late_ranks(files), kLogOfAllRanks,
          rules);
  for (const ScannedFile& file : files) {
    if (!file.problem.empty()) {
      notes.push_back(printable(file.name + ": " + file.problem));
    }
  }
  return notes;
}

Diagnosis diagnose_jobs(const std::vector<ScannedFile>& files, const std::vector<JobLogs>& jobs,
                        const RuleSet& rules) {
  std::vector<Diagnosis> results;
  size_t best = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    std::vector<ScannedFile> mine;
    for (const size_t index : jobs[j].files) {
      mine.push_back(files[index]);
    }
    results.push_back(DiagnosisMaker(mine, rules).make());
    results.back().job = printable(jobs[j].name);
    const auto rank = [&](size_t at) {
      return std::pair(results[at].name != "unknown", jobs[at].last_time);
    };
    best = rank(j) > rank(best) ? j : best;
  }
  Diagnosis result = results[best];
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (j != best) {
      const Diagnosis& other = results[j];
      result.other_jobs.push_back({other.job, other.name, other.confidence, other.cause});
    }
  }
  return result;
}

}  // namespace

Diagnosis diagnose(std::vector<ScannedFile> files, const RuleSet& rules) {
  std::vector<StateRemark> environment = judge_recorded_states(files);
  std::vector<std::string> notes = prepare(files, rules);
  const std::vector<JobLogs> jobs = split_jobs(files, rules);
  Diagnosis result =
      jobs.size() == 1 ? DiagnosisMaker(files, rules).make() : diagnose_jobs(files, jobs, rules);
  result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
  const bool is_bad = !environment.empty() && environment[0].check.state == CheckState::kBad;
  if (result.name == "unknown" && is_bad) {
    result.fix = "First mend what is bad in the recorded state of the hosts (below). " + result.fix;
  }
  result.environment = std::move(environment);
  result.num_files = static_cast<int64_t>(files.size());
  for (const ScannedFile& file : files) {
    result.num_lines += file.num_lines;
    result.bytes += file.bytes;
  }
  return result;
}

}  // namespace plait
