#include "serve/api_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/json_full.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "serve/prepare.h"

namespace plait {

struct ApiServer::RouteRow {
  const char* path;
  Route route;
  const char* methods;
  bool open;  // without a key
};

namespace {

int64_t unix_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A client's request id as it may stand in a header and in the log.
bool is_plain_id(const std::string& id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// `methods` as in an Allow header.
bool allows(std::string_view methods, std::string_view method) {
  while (!methods.empty()) {
    const size_t end = std::min(methods.find(", "), methods.size());
    if (methods.substr(0, end) == method) {
      return true;
    }
    methods.remove_prefix(std::min(end + 2, methods.size()));
  }
  return false;
}

// Runs `answer` and turns what it throws into a problem. The request loop of the API: nothing that
// a client sends may leave it.
template <typename Answer>
std::optional<ApiProblem> problem_of(const Answer& answer) {
  ApiProblem problem;
  try {
    answer();
    return std::nullopt;
  } catch (const ApiError& error) {
    problem = error.problem();
  } catch (const Error& error) {
    const bool clients = exit_code(error.code()) == 2;
    problem = clients ? ApiProblem{} : server_problem("");
    problem.message = error.message();
  } catch (const std::exception& error) {
    problem = server_problem(error.what());
  }
  return problem;
}

}  // namespace

ApiServer::ApiServer(ApiOptions options)
    : options_(std::move(options)),
      keys_(options_.api_keys),
      metrics_(options_.model_names.at(0)),
      id_seed_(static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())),
      created_s_(unix_s()),
      workers_({options_.num_workers, 1024}) {}

ApiServer::~ApiServer() = default;

void ApiServer::set_model(const ApiModel& model) {
  server_->post([this, model] {
    model_ = std::make_shared<const ApiModel>(model);
    if (draining_) {
      model_->service->drain();
    }
  });
}

void ApiServer::begin_drain() {
  server_->post([this] {
    draining_ = true;
    if (model_ != nullptr) {
      model_->service->drain();
    }
  });
}

void ApiServer::end_answers() {
  server_->post([this] {
    const auto jobs = jobs_;
    for (const auto& job : jobs) {
      job->fail(unavailable_problem("draining", "the server is shutting down", 5));
    }
  });
}

const ApiServer::RouteRow* ApiServer::find_route(const std::string& path) {
  static constexpr std::array<RouteRow, 10> kRoutes = {{
      {"/v1/chat/completions", Route::kChat, "POST", false},
      {"/v1/completions", Route::kCompletions, "POST", false},
      {"/v1/models", Route::kModels, "GET, HEAD", false},
      {"/tokenize", Route::kTokenize, "POST", false},
      {"/detokenize", Route::kDetokenize, "POST", false},
      {"/health", Route::kHealth, "GET, HEAD", true},
      {"/ping", Route::kHealth, "GET, HEAD, POST", true},
      {"/metrics", Route::kMetrics, "GET, HEAD", true},
      {"/version", Route::kVersion, "GET, HEAD", true},
      {"/v1/models/", Route::kModel, "GET, HEAD", false},
  }};
  for (const RouteRow& row : kRoutes) {
    const bool by_start = row.route == Route::kModel && path.starts_with(row.path);
    if (path == row.path || by_start) {
      return &row;
    }
  }
  return nullptr;
}

HttpHeaders ApiServer::answer_headers(const HttpRequest& request) const {
  HttpHeaders headers;
  const std::string* given = request.header("x-request-id");
  if (given != nullptr && is_plain_id(*given)) {
    headers.emplace_back("x-request-id", *given);
  } else {
    headers.emplace_back("x-request-id",
                         fmt::format("{:016x}{:016x}", random_bits(id_seed_, 1, num_ids_),
                                     random_bits(id_seed_, 2, num_ids_)));
    ++num_ids_;
  }
  const std::string* origin = request.header("origin");
  for (const std::string& allowed : options_.cors_origins) {
    if (origin != nullptr && (allowed == "*" || allowed == *origin)) {
      headers.emplace_back("access-control-allow-origin", allowed);
      headers.emplace_back("vary", "origin");
      break;
    }
  }
  return headers;
}

std::optional<HttpResponse> ApiServer::preflight(const HttpRequest& request) const {
  HttpHeaders headers = answer_headers(request);
  if (request.method != "OPTIONS" || headers.size() < 2) {  // no origin that is allowed
    return std::nullopt;
  }
  HttpResponse response;
  response.status = 204;
  response.headers = std::move(headers);
  response.headers.emplace_back("access-control-allow-methods", "GET, POST, OPTIONS");
  response.headers.emplace_back("access-control-allow-headers",
                                "authorization, content-type, x-request-id");
  response.headers.emplace_back("access-control-max-age", "600");
  return response;
}

std::optional<HttpResponse> ApiServer::check_head(const HttpRequest& request) {
  if (auto response = preflight(request)) {
    return response;
  }
  const RouteRow* row = find_route(request.path);
  std::optional<ApiProblem> problem;
  const std::string* key = request.header("authorization");
  if (keys_.needed() && (row == nullptr || !row->open) &&
      (key == nullptr || !keys_.accepts(*key))) {
    problem = unauthorized_problem();
  } else if (row == nullptr) {
    problem = not_found_problem(shortened(request.path, 100));
  } else if (!allows(row->methods, request.method)) {
    problem = wrong_method_problem(request.method, row->methods);
  }
  if (!problem) {
    return std::nullopt;
  }
  metrics_.http_answer(row == nullptr ? "other" : row->path, problem->status);
  HttpResponse response = problem_response(*problem);
  const HttpHeaders headers = answer_headers(request);
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  if (problem->status == 405) {
    response.headers.emplace_back("allow", row->methods);
  }
  return response;
}

HttpResponse ApiServer::refusal(int status, const std::string& message) {
  ApiProblem problem;
  problem.status = status;
  problem.message = message;
  if (status == 503) {
    problem = unavailable_problem("too_many_connections", message, 1);
    metrics_.refused();
  }
  metrics_.http_answer("other", status);
  return problem_response(problem);
}

void ApiServer::log_answer(const Exchange& exchange, const JobReport& report) const {
  if (!options_.access_log) {
    return;
  }
  const double total_s = now_s() - exchange.arrival_s;
  if (report.prompt_tokens == 0) {
    log_info(-1, "{} {} id={} seconds={:.3f} {}", exchange.path, report.status, exchange.request_id,
             total_s, report.outcome);
    return;
  }
  log_info(-1, "{} {} id={} seconds={:.3f} ttft={:.3f} prompt={} output={} {}", exchange.path,
           report.status, exchange.request_id, total_s, report.ttft_s, report.prompt_tokens,
           report.completion_tokens, report.outcome);
}

void ApiServer::reply(const Exchange& exchange, HttpResponse response) {
  response.headers.insert(response.headers.end(), exchange.headers.begin(), exchange.headers.end());
  metrics_.http_answer(exchange.path, response.status);
  exchange.writer->respond(std::move(response));
}

void ApiServer::reply_problem(const Exchange& exchange, const ApiProblem& problem) {
  if (problem.status == 429 || problem.status == 503) {
    metrics_.refused();
  }
  JobReport report;
  report.status = problem.status;
  report.outcome = problem.code.empty() ? "refused" : problem.code;
  log_answer(exchange, report);
  reply(exchange, problem_response(problem));
}

// The engine as it is now, whatever the server does.
std::optional<ApiProblem> ApiServer::engine_problem() const {
  const EngineStats stats = model_->service->stats();
  if (!stats.failure.empty()) {
    return unavailable_problem("unhealthy", "the engine failed: " + stats.failure, 30);
  }
  if (stats.step_age_s > options_.step_age_limit_s) {
    return unavailable_problem(
        "unhealthy",
        fmt::format("the engine's last step ended {:.1f} s ago; {:.1f} s is the limit",
                    stats.step_age_s, options_.step_age_limit_s),
        30);
  }
  if (stats.draining || draining_) {
    return unavailable_problem("draining", "the server is shutting down", 5);
  }
  if (!stats.ready) {
    return unavailable_problem("loading", "the model is warming up", 2);
  }
  return std::nullopt;
}

std::optional<ApiProblem> ApiServer::unavailable(const Route& route) const {
  if (route == Route::kMetrics || route == Route::kVersion) {
    return std::nullopt;
  }
  if (draining_ && route != Route::kModels && route != Route::kModel) {
    return unavailable_problem("draining", "the server is shutting down", 5);
  }
  if (model_ == nullptr) {
    return unavailable_problem("loading", "the model is loading", 5);
  }
  const bool needs_engine =
      route == Route::kChat || route == Route::kCompletions || route == Route::kHealth;
  return needs_engine ? engine_problem() : std::nullopt;
}

void ApiServer::handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  const RouteRow* row = find_route(request.path);
  Exchange exchange;
  exchange.route = row->route;
  exchange.path = row->path;
  exchange.headers = answer_headers(request);
  exchange.request_id = exchange.headers.front().second;
  exchange.writer = std::move(writer);
  exchange.arrival_s = now_s();
  if (const auto problem = unavailable(row->route)) {
    if (row->route == Route::kHealth) {
      reply(exchange, problem_response(*problem));  // a probe is no refused request
    } else {
      reply_problem(exchange, *problem);
    }
    return;
  }
  switch (row->route) {
    case Route::kHealth: {
      HttpResponse response;
      response.body = R"({"status":"ok"})";
      reply(exchange, std::move(response));
      return;
    }
    case Route::kVersion:
      reply(exchange, version_response());
      return;
    case Route::kMetrics:
      answer_metrics(exchange);
      return;
    case Route::kModels:
    case Route::kModel:
      answer_models(exchange, request.path);
      return;
    default:
      answer_on_worker(exchange, std::move(request.body));
  }
}

HttpResponse ApiServer::version_response() const {
  Json json;
  json["version"] = options_.version;
  HttpResponse response;
  response.body = dump_json(json);
  return response;
}

void ApiServer::answer_models(const Exchange& exchange, const std::string& path) {
  const int64_t length = model_->service->limits().max_model_len;
  HttpResponse response;
  if (exchange.route == Route::kModels) {
    response.body = model_list_json(options_.model_names, created_s_, length);
    reply(exchange, std::move(response));
    return;
  }
  const std::string name = path.substr(std::string(exchange.path).size());
  const auto& names = options_.model_names;
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    reply_problem(exchange, unknown_model_problem(shortened(name, 200)));
    return;
  }
  response.body = model_json(name, created_s_, length);
  reply(exchange, std::move(response));
}

void ApiServer::answer_metrics(const Exchange& exchange) {
  ServeMetrics::Snapshot snapshot;
  if (model_ != nullptr) {
    snapshot.engine = model_->service->stats();
  }
  snapshot.engine.draining = snapshot.engine.draining || draining_;
  snapshot.connections = server_->num_connections();
  snapshot.active_requests = num_active_;
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(snapshot);
  reply(exchange, std::move(response));
}

void ApiServer::answer_on_worker(const Exchange& exchange, std::string body) {
  auto work = [this, exchange = Exchange(exchange), body = std::move(body),
               model = model_]() mutable {
    const PrepareContext context = {model.get(), &options_.model_names};
    auto prepared = std::make_shared<PreparedRequest>();
    std::string answer;
    auto problem = problem_of([&] {
      switch (exchange.route) {
        case Route::kChat:
          *prepared = prepare_chat(body, context);
          break;
        case Route::kCompletions:
          *prepared = prepare_completion(body, context);
          break;
        case Route::kTokenize:
          answer = answer_tokenize(body, context);
          break;
        default:
          answer = answer_detokenize(body, context);
      }
    });
    // The exchange goes with it: a writer may only be let go of on the I/O thread.
    server_->post([this, exchange = std::move(exchange), prepared = std::move(prepared),
                   answer = std::move(answer), problem = std::move(problem)] {
      --num_active_;
      if (problem) {
        reply_problem(exchange, *problem);
      } else if (exchange.route == Route::kChat || exchange.route == Route::kCompletions) {
        start_job(exchange, std::move(*prepared));
      } else {
        HttpResponse response;
        response.body = answer;
        reply(exchange, std::move(response));
      }
    });
  };
  ++num_active_;
  if (!workers_.submit(std::move(work))) {
    --num_active_;
    reply_problem(exchange, queue_full_problem(1));
  }
}

void ApiServer::start_job(const Exchange& exchange, PreparedRequest request) {
  if (exchange.writer->closed()) {
    return;
  }
  if (const auto problem = unavailable(exchange.route)) {
    reply_problem(exchange, *problem);
    return;
  }
  GenerationJob::Setup setup;
  setup.head.chat = exchange.route == Route::kChat;
  setup.head.id =
      fmt::format("{}-{:016x}{:08x}", setup.head.chat ? "chatcmpl" : "cmpl",
                  random_bits(id_seed_, 3, num_ids_), random_bits(id_seed_, 4, num_ids_) >> 32);
  ++num_ids_;
  setup.head.created_s = unix_s();
  const std::string& asked = request.options.model;
  setup.head.model = asked.empty() ? options_.model_names.front() : asked;
  const double own_s = request.options.deadline_s;
  setup.deadline_s = own_s > 0 && options_.deadline_s > 0 ? std::min(own_s, options_.deadline_s)
                                                          : std::max(own_s, options_.deadline_s);
  setup.queue_limit_s = options_.queue_limit_s;
  setup.request = std::move(request);
  setup.model = model_;
  setup.writer = exchange.writer;
  setup.headers = exchange.headers;
  setup.metrics = &metrics_;
  setup.arrival_s = exchange.arrival_s;
  setup.post = [server = server_](std::function<void()> work) { server->post(std::move(work)); };
  auto holder = std::make_shared<std::weak_ptr<GenerationJob>>();
  setup.on_done = [this, exchange, holder](const JobReport& report) {
    metrics_.http_answer(exchange.path, report.status);
    log_answer(exchange, report);
    --num_active_;
    jobs_.erase(holder->lock());
  };
  auto job = std::make_shared<GenerationJob>(std::move(setup));
  *holder = job;
  jobs_.insert(job);
  ++num_active_;
  job->start();
}

void ApiServer::tick() {
  if (model_ == nullptr || jobs_.empty()) {
    failure_logged_ = false;
    return;
  }
  const auto problem = engine_problem();
  if (!problem || problem->code != "unhealthy") {
    failure_logged_ = false;
    return;
  }
  if (!std::exchange(failure_logged_, true)) {
    log_error(-1, "{}; {} answers end with an error", problem->message, jobs_.size());
  }
  const auto jobs = jobs_;
  for (const auto& job : jobs) {
    job->fail(*problem);
  }
}

}  // namespace plait
