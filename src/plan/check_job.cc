#include "base/error.h"
#include "plan/estimate.h"

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

}  // namespace plait
