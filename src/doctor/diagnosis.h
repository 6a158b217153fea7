// The verdict: from all findings to one cause, the guilty, and what to do.
#pragma once

#include <string>
#include <vector>

#include "doctor/fault_rules.h"
#include "doctor/findings.h"
#include "doctor/log_scan.h"
#include "doctor/recorded_state.h"

namespace plait {

struct Guilty {
  std::string host;    // "" if not known
  std::string rank;    // "5", or "1,3,5,7"
  std::string device;  // as the runtime numbers it
};

struct Evidence {
  std::string file;
  int64_t line = 0;
  std::string text;  // without control characters
};

// One thing that happened, in the order of time.
struct ChainLink {
  std::string name;
  std::string role;
  std::string text;
  std::string who;  // "rank 3, host a"
  double time = -1;
  int64_t count = 1;  // lines
};

struct RuledOut {
  std::string name;
  std::string reason;
};

// Another job whose logs were among those that were read.
struct OtherJob {
  std::string job;
  std::string name;  // the class
  Confidence confidence = Confidence::kLow;
  std::string cause;
};

struct Diagnosis {
  std::string name = "unknown";  // the class
  Confidence confidence = Confidence::kLow;
  Guilty guilty;
  std::string cause;
  std::string fix;
  std::string verify;
  std::string source;
  std::vector<Evidence> evidence;
  std::vector<ChainLink> chain;
  std::vector<RuledOut> ruled_out;
  std::string job;  // which of several jobs; "" if the logs are of one
  std::vector<OtherJob> other_jobs;
  std::vector<std::string> notes;        // files that could not be read, clocks that were corrected
  std::vector<StateRemark> environment;  // what is wrong with the hosts of a collection
  int64_t num_files = 0;
  int64_t num_lines = 0;
  int64_t bytes = 0;
};

// A cause brings about what comes with or after it: among the findings that no other explains, the
// one whose text settles most wins, then the earliest. Symptoms of waiting (time-outs) are used to
// tell who was waited for. Without a cause the answer is "unknown" or the symptom, with what to
// collect next. Where the logs are of several jobs (doctor/jobs.h) each is judged alone, and the
// newest with a cause is told first.
Diagnosis diagnose(std::vector<ScannedFile> files, const RuleSet& rules);

std::string diagnosis_text(const Diagnosis& diagnosis);
std::string diagnosis_json(const Diagnosis& diagnosis);

}  // namespace plait
