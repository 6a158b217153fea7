// What a client is told when its request is refused: the error object of the OpenAI API.
#pragma once

#include <string>

#include "base/error.h"
#include "serve/http_types.h"

namespace plait {

struct ApiProblem {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;          // the field at fault; empty: null
  std::string code;           // empty: null
  double retry_after_s = -1;  // < 0: no such header
  bool retry = true;          // false: tells clients that trying again is of no use
};

// Thrown while a request is read; caught where a request is handled.
class ApiError final : public Error {
 public:
  explicit ApiError(ApiProblem problem)
      : Error(ErrorCode::kInvalidArgument, problem.message), problem_(std::move(problem)) {}
  const ApiProblem& problem() const { return problem_; }

 private:
  ApiProblem problem_;
};

// 400 for a field: refuse_field("top_p", "top_p is 2; ..."). A field within another is spelt with
// its path: "messages[2].content".
[[noreturn]] void refuse_field(const std::string& field, std::string message);

// {"error": {"message", "type", "param", "code"}}
std::string problem_json(const ApiProblem& problem);
HttpResponse problem_response(const ApiProblem& problem);

ApiProblem not_found_problem(const std::string& path);
ApiProblem wrong_method_problem(const std::string& method, const std::string& allowed);
ApiProblem unauthorized_problem();
ApiProblem unknown_model_problem(const std::string& model);
ApiProblem queue_full_problem(double retry_after_s);  // 429
// 503; code "loading", "draining" or "unhealthy".
ApiProblem unavailable_problem(std::string code, std::string message, double retry_after_s);
ApiProblem server_problem(std::string message);  // 500

}  // namespace plait
