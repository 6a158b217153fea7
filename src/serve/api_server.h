// The OpenAI-compatible API on top of an HttpServer: routes, keys, admission, health, drain.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/api_keys.h"
#include "serve/api_model.h"
#include "serve/generation_job.h"
#include "serve/http_server.h"
#include "serve/http_types.h"
#include "serve/serve_metrics.h"
#include "serve/worker_pool.h"

namespace plait {

struct ApiOptions {
  std::vector<std::string> model_names;  // the first is the one that answers carry
  std::string version;
  std::vector<std::string> api_keys;      // empty: no key is needed
  std::vector<std::string> cors_origins;  // empty: none; "*": any
  double step_age_limit_s = 8;            // a step that takes longer counts as a hang
  double deadline_s = 0;                  // longest answer, from its request's arrival; 0: none
  double queue_limit_s = 0;               // longest wait for the first step; 0: none
  int num_workers = 2;                    // threads that parse and tokenise
  bool access_log = true;                 // a line on stderr for each answer; never its texts
};

// The calls of HttpHandler come on the I/O thread; the others say.
class ApiServer final : public HttpHandler {
 public:
  explicit ApiServer(ApiOptions options);
  ~ApiServer() override;

  // Before HttpServer::start(). `server` must outlive the calls below.
  void attach(HttpServer& server) { server_ = &server; }
  // From now on requests are answered; 503 before. Any thread.
  void set_model(const ApiModel& model);
  // Refuses new work with 503 and tells the engine; answers in the making go on. Any thread.
  void begin_drain();
  // Ends all answers in the making with an error. Any thread.
  void end_answers();
  // After HttpServer::stop(): the model is not used any more once this returns.
  void stop() { workers_.stop(); }
  bool draining() const { return draining_; }         // begin_drain() has taken effect; any thread
  int64_t num_active() const { return num_active_; }  // answers in the making; any thread

  std::optional<HttpResponse> check_head(const HttpRequest& request) override;
  void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override;
  HttpResponse refusal(int status, const std::string& message) override;
  void tick() override;

 private:
  enum class Route : uint8_t {
    kChat,
    kCompletions,
    kModels,
    kModel,
    kTokenize,
    kDetokenize,
    kHealth,
    kMetrics,
    kVersion,
  };
  // One request on its way.
  struct Exchange {
    Route route = Route::kHealth;
    std::string path;  // as in the log and the metrics
    std::string request_id;
    HttpHeaders headers;  // of the answer
    std::shared_ptr<ResponseWriter> writer;
    double arrival_s = 0;
  };
  struct RouteRow;

  static const RouteRow* find_route(const std::string& path);
  std::optional<HttpResponse> preflight(const HttpRequest& request) const;
  HttpHeaders answer_headers(const HttpRequest& request) const;
  void reply(const Exchange& exchange, HttpResponse response);
  void reply_problem(const Exchange& exchange, const ApiProblem& problem);
  void log_answer(const Exchange& exchange, const JobReport& report) const;
  std::optional<ApiProblem> unavailable(const Route& route) const;
  std::optional<ApiProblem> engine_problem() const;
  void answer_health(const Exchange& exchange);
  void answer_models(const Exchange& exchange, const std::string& path);
  void answer_metrics(const Exchange& exchange);
  void answer_on_worker(const Exchange& exchange, std::string body);
  void start_job(const Exchange& exchange, PreparedRequest request);
  HttpResponse version_response() const;

  ApiOptions options_;
  ApiKeys keys_;
  ServeMetrics metrics_;
  HttpServer* server_ = nullptr;
  std::shared_ptr<const ApiModel> model_;
  std::set<std::shared_ptr<GenerationJob>> jobs_;
  std::atomic<int64_t> num_active_ = 0;
  std::atomic<bool> draining_ = false;
  bool failure_logged_ = false;
  uint64_t id_seed_ = 0;
  mutable uint64_t num_ids_ = 0;
  int64_t created_s_ = 0;
  WorkerPool workers_;  // last: its work refers to the rest
};

}  // namespace plait
