// What a reader of launch files found: a job, where each of its settings stands, and what it could
// not use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/job.h"
#include "plan/job_problems.h"
#include "plan/readers/flag_set.h"
#include "plan/readers/shell.h"
#include "plan/readers/source_line.h"

namespace plait {

// How a setting of the job is written in the file.
struct Setting {
  std::string name;   // "--tensor-model-parallel-size", "zero_optimization.stage"
  std::string value;  // empty for a flag
  SourceLine where;
};

struct CheckProblem : JobProblem {
  SourceLine where;
  bool of_job = false;  // found in the job, not in how it is written
};

struct ReadJob {
  std::string kind;  // "Megatron-LM launch script", "DeepSpeed configuration", ...
  TrainJob job;
  int world_size = 0;                       // 0: the file does not tell
  bool has_model = true;                    // false: the shape is not in the file and was not given
  std::map<std::string, Setting> settings;  // by the key of Problem: "tp", "seq_len", ...
  std::vector<UnknownFlag> unknown_flags;
  std::vector<Note> assumptions;
  std::vector<Note> not_evaluated;
  // Something among the assumptions takes less memory than is estimated, by an unknown amount: the
  // job may not be said not to fit.
  bool memory_is_upper_bound = false;
  std::vector<CheckProblem> problems;  // contradictions that the job no longer shows
  std::map<std::string, ShellWord> environment;
  std::map<std::string, ShellWord> not_exported;  // variables of the script
  // Processes of a server, and servers, where a configuration tells them; 0: the launcher does.
  int64_t per_server = 0, servers = 0;
  std::string origin;
};

// What the caller knows beside the file.
struct ReadOptions {
  ShellOptions shell;
  std::string model;             // HF directory or catalogue name; empty: from the file
  int devices = 0;               // 0: from the file
  int64_t seq_len = 0;           // for files that do not tell
  int64_t micro_batch_size = 0;  // the same
};

// A file that `origin` names: as it stands, beside it, or beside a folder above it (people start
// scripts/train.sh from the repository's root). The name itself if it is nowhere.
std::string find_beside(const std::string& name, const std::string& origin);

// What find_model takes for a model that a file names: a path that is here, or the name in the
// catalogue of a model of the same shape ("Qwen/Qwen3-8B-w8a8" has that of Qwen3-8B). Empty if
// there is none.
std::string known_model(const std::string& name);

}  // namespace plait
