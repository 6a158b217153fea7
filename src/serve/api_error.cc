#include "serve/api_error.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_full.h"
#include "base/text.h"

namespace plait {

void refuse_field(const std::string& field, std::string message) {
  ApiProblem problem;
  problem.message = std::move(message);
  problem.param = field;
  throw ApiError(std::move(problem));
}

std::string problem_json(const ApiProblem& problem) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json error;
  error["message"] = problem.message;
  error["type"] = problem.type;
  error["param"] = text_or_null(problem.param);
  error["code"] = text_or_null(problem.code);
  Json body;
  body["error"] = std::move(error);
  return dump_json(body);
}

HttpResponse problem_response(const ApiProblem& problem) {
  HttpResponse response;
  response.status = problem.status;
  response.body = problem_json(problem);
  if (problem.retry_after_s >= 0) {
    const double seconds = std::clamp(std::ceil(problem.retry_after_s), 1.0, 3600.0);
    response.headers.emplace_back("retry-after", std::to_string(static_cast<int64_t>(seconds)));
  }
  if (!problem.retry) {
    response.headers.emplace_back("x-should-retry", "false");
  }
  if (problem.status == 401) {
    response.headers.emplace_back("www-authenticate", "Bearer");
  }
  return response;
}

ApiProblem not_found_problem(const std::string& path) {
  ApiProblem problem;
  problem.status = 404;
  problem.message = fmt::format("there is no {}; docs/serving.md lists the paths", path);
  problem.code = "unknown_url";
  return problem;
}

ApiProblem wrong_method_problem(const std::string& method, const std::string& allowed) {
  ApiProblem problem;
  problem.status = 405;
  problem.message = fmt::format("{} is not allowed here; use {}", shortened(method, 40), allowed);
  problem.code = "method_not_allowed";
  return problem;
}

ApiProblem unauthorized_problem() {
  ApiProblem problem;
  problem.status = 401;
  problem.message = "this server wants a key that it knows: Authorization: Bearer KEY";
  problem.code = "invalid_api_key";
  return problem;
}

ApiProblem unknown_model_problem(const std::string& model) {
  ApiProblem problem;
  problem.status = 404;
  problem.message =
      fmt::format("the model '{}' does not exist; /v1/models lists what is served", model);
  problem.param = "model";
  problem.code = "model_not_found";
  return problem;
}

ApiProblem queue_full_problem(double retry_after_s) {
  ApiProblem problem;
  problem.status = 429;
  problem.message = "the server has as many requests as it accepts; try again later";
  problem.type = "rate_limit_error";
  problem.code = "queue_full";
  problem.retry_after_s = std::max(retry_after_s, 0.0);
  return problem;
}

ApiProblem unavailable_problem(std::string code, std::string message, double retry_after_s) {
  ApiProblem problem;
  problem.status = 503;
  problem.message = std::move(message);
  problem.type = "service_unavailable_error";
  problem.code = std::move(code);
  problem.retry_after_s = std::max(retry_after_s, 0.0);
  return problem;
}

ApiProblem server_problem(std::string message) {
  ApiProblem problem;
  problem.status = 500;
  problem.message = std::move(message);
  problem.type = "server_error";
  problem.code = "internal_error";
  return problem;
}

}  // namespace plait
