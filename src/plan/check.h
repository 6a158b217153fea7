// plait plan check: reads a launch file or command line, finds what contradicts itself, predicts
// whether each stage fits, and proposes the smallest change that works.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/estimate.h"
#include "plan/readers/read_job.h"
#include "topology/cluster.h"

namespace plait {

struct CheckOptions {
  ReadOptions read;
  // Chip for memory, network for the choice among proposals; absent: neither is judged.
  std::optional<Cluster> cluster;
  bool propose = true;
};

// One setting of a proposal.
struct ProposedChange {
  std::string key;     // "tp"
  std::string name;    // "--tensor-model-parallel-size"
  std::string before;  // "8", "off"
  std::string after;
  SourceLine where;  // line 0: the setting is new
};

struct Proposal {
  std::vector<ProposedChange> changes;
  TrainJob job;
  double step_seconds = 0;  // 0: no network was given
};

// What memory says; absent if the job has errors, or no chip was given.
struct MemoryVerdict {
  std::string chip;
  double capacity = 0;  // bytes a stage may use
  double pool = 0;      // of those, the most that are not communication's; 0: no limit of its own
  SourceLine pool_where;
  std::vector<StageMemoryPlan> stages;
  Fit fit = Fit::kFits;
};

struct CheckReport {
  std::string kind;
  std::string origin;
  std::vector<CheckProblem> problems;  // errors first
  std::vector<UnknownFlag> unknown_flags;
  std::vector<Note> assumptions;
  std::vector<Note> not_evaluated;
  TrainJob job;
  bool has_model = true;
  bool serves = false;  // a serving command: `job` holds the degrees and the model alone
  int world_size = 0;
  std::optional<MemoryVerdict> memory;
  std::optional<Proposal> proposal;
  int least_devices = 0;  // where nothing on these devices fits: how many would do; 0: not known
  std::vector<Note> serving;  // lines of a serving command: weights, KV cache, ...

  int num_errors() const;
  // True if nothing is wrong: no errors, and no stage that does not fit.
  bool ok() const;
};

// Errors: kNotFound, kIo; kInvalidArgument naming file and line for what cannot be read.
CheckReport check_file(const std::string& path, const CheckOptions& options);
// The text of a file that is called `origin`: its ending decides how it is read.
CheckReport check_text(const std::string& text, const std::string& origin,
                       const CheckOptions& options);
// A command line, or flags alone.
CheckReport check_arguments(const std::vector<std::string>& words, const CheckOptions& options);

// Judges what a reader found.
CheckReport check_read_job(ReadJob read, const CheckOptions& options);

}  // namespace plait
