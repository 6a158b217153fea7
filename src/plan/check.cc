#include "plan/check.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "plan/environment_rules.h"
#include "plan/readers/launch.h"
#include "plan/readers/megatron.h"

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

CheckReport check_launch(const Launch& launch, const std::string& origin,
                         const CheckOptions& options, const ShellScript* script) {
  ReadJob read = read_megatron(launch, origin, options.read);
  if (script != nullptr) {
    read.not_exported = script->variables;
    read.not_evaluated.insert(read.not_evaluated.end(), script->not_evaluated.begin(),
                              script->not_evaluated.end());
    read.assumptions.insert(read.assumptions.end(), script->assumptions.begin(),
                            script->assumptions.end());
  }
  return check_job(std::move(read), options);
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

CheckReport check_job(ReadJob read, const CheckOptions& options) {
  (void)options;
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
  report.unknown_flags = read.unknown_flags;
  report.assumptions = read.assumptions;
  report.not_evaluated = read.not_evaluated;
  return report;
}

CheckReport check_text(const std::string& text, const std::string& origin,
                       const CheckOptions& options) {
  const ShellScript script = read_shell(text, origin, options.read.shell);
  const std::optional<Launch> launch = find_launch(script);
  if (!launch) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: holds no command that starts training or serving (torchrun, python, msrun, "
                "deepspeed, vllm serve, ...)",
                origin);
  }
  return check_launch(*launch, origin, options, &script);
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
