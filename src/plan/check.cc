#include "plan/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "plan/check_memory.h"
#include "plan/check_proposal.h"
#include "plan/check_serving.h"
#include "plan/environment_rules.h"
#include "plan/launch_rules.h"
#include "plan/readers/deepspeed.h"
#include "plan/readers/kubernetes.h"
#include "plan/readers/launch.h"
#include "plan/readers/megatron.h"
#include "plan/readers/mindformers.h"
#include "plan/readers/plait_run.h"
#include "plan/readers/trainer.h"

namespace plait {
namespace {

void sort_problems(std::vector<CheckProblem>& problems) {
  std::stable_partition(problems.begin(), problems.end(), [](const CheckProblem& problem) {
    return problem.severity == Severity::kError;
  });
}

// Where a rule's setting stands, and what the file calls it.
CheckProblem located(JobProblem problem, const ReadJob& read) {
  CheckProblem found;
  static_cast<JobProblem&>(found) = std::move(problem);
  found.of_job = true;
  found.where = {read.origin, 0};
  const auto setting = read.settings.find(found.key);
  if (setting != read.settings.end()) {
    found.where = setting->second.where;
    if (!setting->second.name.empty()) {
      found.key = setting->second.name;
    }
  }
  return found;
}

// Of what is an upper bound, not more can be said than that it is tight.
void soften(MemoryVerdict& memory) {
  memory.fit = std::min(memory.fit, Fit::kTight);
  for (StageMemoryPlan& stage : memory.stages) {
    stage.fit = std::min(stage.fit, Fit::kTight);
  }
}

// Memory of a job without errors, and what to change if it does not work.
void judge(CheckReport& report, ReadJob& read, const CheckOptions& options) {
  std::optional<Cluster> cluster = options.cluster;
  // plait runs on whatever machine it is started on.
  if (!cluster && read.has_model && read.job.stack != Stack::kPlait) {
    const bool ascend = has_ascend_variables(read.environment);
    cluster = load_cluster(assumed_cluster(ascend ? Stack::kMindSpeed : read.job.stack));
    read.assumptions.push_back(
        {fmt::format("the chip is not in the file: {} is assumed; give it with --cluster",
                     cluster->chip.name),
         {read.origin, 0}});
  }
  if (const auto problem = cluster ? find_chip_problem(read.job, cluster->chip) : std::nullopt) {
    report.problems.push_back(located(*problem, read));
    report.problems.back().of_job = false;
    sort_problems(report.problems);
  }
  const bool job_holds = find_job_problems(read.job, read.world_size).empty();
  if (cluster && read.has_model && job_holds) {
    report.memory = judge_memory(read.job, cluster->chip);
    if (read.memory_is_upper_bound && report.memory->fit == Fit::kDoesNotFit) {
      soften(*report.memory);
      read.assumptions.push_back(
          {"memory is an upper bound here, so that more than the chip holds is no error",
           {read.origin, 0}});
    }
    if (const auto setting = read.settings.find("pool"); setting != read.settings.end()) {
      report.memory->pool_where = setting->second.where;
    }
    if (auto problem = find_pool_problem(read, *report.memory, cluster->chip)) {
      report.problems.push_back(std::move(*problem));
      sort_problems(report.problems);
    }
  }
  if (report.ok() || !options.propose) {
    return;
  }
  ProposalRequest request;
  request.read = &read;
  request.cluster = cluster ? &*cluster : nullptr;
  for (const CheckProblem& problem : report.problems) {
    // Those of the job are what the search repairs.
    const bool of_job = problem.severity == Severity::kError && problem.of_job;
    if (problem.severity == Severity::kError && !of_job) {
      request.fixed.push_back(problem);
    }
  }
  report.proposal = find_proposal(request);
  if (!report.proposal && report.memory && report.memory->fit == Fit::kDoesNotFit) {
    report.least_devices = least_devices(read.job, *cluster, read.world_size);
  }
}

// The --config of MindFormers' run_mindformer.py; empty for other programs.
std::string mindformers_config(const Launch& launch, const std::string& origin) {
  if (launch.program.find("run_mindformer") == std::string::npos) {
    return "";
  }
  for (size_t i = 0; i + 1 < launch.arguments.size(); ++i) {
    const ShellWord& value = launch.arguments[i + 1];
    if (launch.arguments[i].text == "--config" && value.known()) {
      return find_beside(value.text, origin);
    }
  }
  return "";
}

void add_problems(std::vector<CheckProblem>& problems, std::vector<CheckProblem> more) {
  problems.insert(problems.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

CheckReport check_launch(const Launch& launch, const std::string& origin,
                         const CheckOptions& options, const ShellScript* script) {
  if (launch.kind == ProgramKind::kVllm) {
    CheckReport report = check_serving(launch, origin, options);
    add_problems(report.problems, check_launched(launch, origin, 0, 0));
    sort_problems(report.problems);
    return report;
  }
  if (launch.kind == ProgramKind::kPlait) {
    return check_read_job(read_plait_train(launch, origin, options.read), options);
  }
  if (const std::string path = mindformers_config(launch, origin); !path.empty()) {
    ReadOptions given = options.read;
    given.devices = given.devices > 0 ? given.devices : static_cast<int>(launch.world_size());
    const ShellWord* inside = script == nullptr ? nullptr : find_file(*script, path);
    ReadJob read =
        read_mindformers(inside == nullptr ? read_file(path) : inside->text, path, given);
    read.environment = launch.environment;
    add_problems(read.problems, check_launched(launch, origin, launch.per_server, launch.servers));
    return check_read_job(std::move(read), options);
  }
  ReadJob read = script != nullptr && is_trainer_launch(launch, origin)
                     ? read_trainer_launch(launch, *script, options.read)
                     : read_megatron(launch, origin, options.read);
  if (script != nullptr) {
    read.not_exported = script->variables;
    read.not_evaluated.insert(read.not_evaluated.end(), script->not_evaluated.begin(),
                              script->not_evaluated.end());
    read.assumptions.insert(read.assumptions.end(), script->assumptions.begin(),
                            script->assumptions.end());
  }
  const bool by_config = read.per_server > 0;
  add_problems(read.problems,
               check_launched(launch, origin, by_config ? read.per_server : launch.per_server,
                              by_config ? read.servers : launch.servers));
  return check_read_job(std::move(read), options);
}

CheckReport check_script(const ShellScript& script, const CheckOptions& options) {
  const std::optional<Launch> launch = find_launch(script);
  if (!launch) {
    std::string unread;
    constexpr size_t kShown = 2;
    for (size_t i = 0; i < std::min(kShown, script.not_evaluated.size()); ++i) {
      const Note& note = script.not_evaluated[i];
      unread +=
          fmt::format("{} {}: {}", i == 0 ? ". Not read:" : ";", note.where.text(), note.text);
    }
    throw_error(ErrorCode::kInvalidArgument,
                "{}: holds no command that starts training or serving (torchrun, python, msrun, "
                "deepspeed, vllm serve, ...){}",
                script.origin, unread);
  }
  return check_launch(*launch, script.origin, options, &script);
}

// The script inside, and whether its processes have a device each.
CheckReport check_manifest(const Manifest& manifest, const std::string& origin,
                           const CheckOptions& options) {
  ShellOptions shell = options.read.shell;
  shell.environment = manifest.environment;
  ShellScript script = read_shell(manifest.script, origin + ": " + manifest.script_name, shell);
  for (const auto& [name, text] : manifest.files) {
    script.files.insert({name, {text, 1, ""}});
  }
  CheckReport report = check_script(script, options);
  report.kind = manifest.kind + " with a " + report.kind;
  report.assumptions.insert(report.assumptions.begin(), manifest.notes.begin(),
                            manifest.notes.end());
  const int64_t devices = manifest.pods * manifest.devices;
  if (devices > 0 && report.world_size > 0 && devices != report.world_size) {
    CheckProblem problem;
    problem.key = manifest.is_server ? "devices of the pod" : manifest.pods_key;
    problem.value = std::to_string(manifest.is_server ? manifest.devices : manifest.pods);
    problem.rule = fmt::format("{} pods of {} devices are {} devices, but the script starts {}",
                               manifest.pods, manifest.devices, devices, report.world_size);
    problem.suggestion =
        manifest.is_server ? fmt::format("{} devices in resources.limits", report.world_size)
        : report.world_size % manifest.devices == 0
            ? fmt::format("{}={}", manifest.pods_key, report.world_size / manifest.devices)
            : fmt::format("a script that starts {}", devices);
    problem.source = "a rank a device";
    problem.where = manifest.pods_where;
    report.problems.insert(report.problems.begin(), std::move(problem));
  }
  return report;
}

}  // namespace

int CheckReport::num_errors() const {
  return static_cast<int>(std::count_if(
      problems.begin(), problems.end(),
      [](const CheckProblem& problem) { return problem.severity == Severity::kError; }));
}

bool CheckReport::ok() const {
  return num_errors() == 0 && (!memory || memory->fit != Fit::kDoesNotFit);
}

CheckReport check_read_job(ReadJob read, const CheckOptions& options) {
  CheckReport report;
  report.kind = read.kind;
  report.origin = read.origin;
  report.job = read.job;
  report.has_model = read.has_model;
  report.world_size = read.world_size;
  for (JobProblem& problem : inspect_job(read.job, read.world_size)) {
    report.problems.push_back(located(std::move(problem), read));
  }
  report.problems.insert(report.problems.end(), read.problems.begin(), read.problems.end());
  for (CheckProblem& problem : check_environment(read)) {
    report.problems.push_back(std::move(problem));
  }
  sort_problems(report.problems);
  judge(report, read, options);
  report.unknown_flags = read.unknown_flags;
  report.assumptions = read.assumptions;
  report.not_evaluated = read.not_evaluated;
  return report;
}

CheckReport check_text(const std::string& text, const std::string& origin,
                       const CheckOptions& options) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (origin.ends_with(".json") || (first != std::string::npos && text[first] == '{')) {
    return check_read_job(read_deepspeed(text, origin, options.read), options);
  }
  if (origin.ends_with(".toml")) {
    return check_read_job(read_plait_run(text, origin, options.read), options);
  }
  if (origin.ends_with(".yaml") || origin.ends_with(".yml")) {
    if (const std::optional<Manifest> manifest = read_manifest(text, origin)) {
      return check_manifest(*manifest, origin, options);
    }
    if (const auto launch = trainer_launch(text, origin, options.read.devices)) {
      ShellScript script;
      script.origin = origin;
      return check_launch(*launch, origin, options, &script);
    }
    return check_read_job(read_mindformers(text, origin, options.read), options);
  }
  return check_script(read_shell(text, origin, options.read.shell), options);
}

CheckReport check_file(const std::string& path, const CheckOptions& options) {
  return check_text(read_file(path), path, options);
}

CheckReport check_arguments(const std::vector<std::string>& words, const CheckOptions& options) {
  if (words.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "no file and no arguments to check");
  }
  return check_launch(plain_launch(words), "arguments", options, nullptr);
}

}  // namespace plait
