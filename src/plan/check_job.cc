#include "base/error.h"
#include "plan/estimate.h"
#include "plan/job_problems.h"

namespace plait {

void check_job(const TrainJob& job, int world_size) {
  const std::vector<Problem> problems = find_job_problems(job, world_size);
  if (problems.empty()) {
    return;
  }
  std::string text = "the job breaks a rule:";
  for (const Problem& problem : problems) {
    text += fmt::format("\n  {}={}: {}{}{}", problem.key, problem.value, problem.rule,
                        problem.suggestion.empty() ? "" : "; try ", problem.suggestion);
  }
  throw_error(ErrorCode::kInvalidArgument, "{}", text);
}

void check_chip(const TrainJob& job, const Chip& chip) {
  if (const std::optional<JobProblem> problem = find_chip_problem(job, chip)) {
    throw_error(ErrorCode::kInvalidArgument, "{}={}: {}; use {}", problem->key, problem->value,
                problem->rule, problem->suggestion);
  }
}

}  // namespace plait
