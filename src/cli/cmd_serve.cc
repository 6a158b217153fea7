#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/watchdog.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/serve_text.h"
#include "comm/fault.h"
#include "comm/flight_record.h"
#include "comm/rank_runner.h"
#include "serve/api_server.h"
#include "serve/engine.h"
#include "serve/sampling_check.h"
#include "serve/served_model.h"

namespace plait {
namespace {

// Limits of the end: answers on their way, ranks that are well, and ranks of which one has failed.
constexpr double kFlushS = 5;
constexpr double kJoinS = 15;
constexpr double kFailedJoinS = 2;

struct ServeFlags {
  EngineFlags engine;
  ServeTextOptions text;
  HttpServerOptions http;
  ApiOptions api;
  std::string api_key_file;
  std::string reasoning_parser = "auto";
  std::string tool_call_parser = "auto";
  std::string generation_config = "auto";
  double drain_timeout_s = 30;
  double body_mib = 16;
  std::string run_dir = "auto";
  bool no_access_log = false;
  bool dry_run = false;
};

// SIGINT and SIGTERM wait for take(): a signal then interrupts nothing, and the second one works
// whatever the other threads do. Make it before any thread.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // The next signal, or 0 if none comes within this time.
  int take(double wait_s) const {
    const auto whole = static_cast<time_t>(wait_s);
    timespec wait{};
    wait.tv_sec = whole;
    wait.tv_nsec = static_cast<long>((wait_s - static_cast<double>(whole)) * 1e9);
    return std::max(sigtimedwait(&set_, nullptr, &wait), 0);
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

bool parser_on(const char* flag, const std::string& value) {
  if (value != "auto" && value != "qwen3" && value != "hermes" && value != "none") {
    throw_error(ErrorCode::kInvalidArgument, "{} is '{}'; it must be auto or none", flag, value);
  }
  return value != "none";
}

// Everything that is known before weights are read.
struct OpenedModel {
  ServeText text;
  ServedModel weights;
  ServingOptions options;
  ServingPlan plan;
};

OpenedModel open_model(const ServeFlags& flags) {
  OpenedModel model;
  model.options = serving_options(flags.engine);
  model.weights = open_served_model(flags.text.model);
  for (const std::string& name : model.weights.unused) {
    log_warning(-1, "{}: the model does not use tensor '{}'", flags.text.model, name);
  }
  ServeTextOptions text = flags.text;
  text.use_generation_config = flags.generation_config != "none";
  model.text = load_serve_text(text);
  model.options.eos_token_ids = model.text.model.eos_ids;
  model.options.populate_cache = true;
  model.options.vocab_limit =
      std::min(model.text.model.tokenizer->vocab_size(), model.weights.config.vocab_size);
  model.plan = plan_serving(model.weights, model.options, host_limits(model.options.layout));
  if (const auto problem = check_sampling(model.text.defaults, model.plan.limits)) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}/generation_config.json: {}; mend it or use --generation-config none",
                flags.text.model, problem->message);
  }
  return model;
}

ApiOptions api_options(const ServeFlags& flags) {
  ApiOptions options = flags.api;
  options.version = PLAIT_VERSION;
  options.access_log = !flags.no_access_log;
  options.step_age_limit_s = flags.engine.options.stall_limit_s;
  if (options.model_names.empty()) {
    std::filesystem::path path = std::filesystem::path(flags.text.model).lexically_normal();
    if (path.filename().empty()) {
      path = path.parent_path();
    }
    options.model_names = {path.filename().string()};
  }
  if (std::ranges::find(options.model_names, "") != options.model_names.end()) {
    throw_error(ErrorCode::kInvalidArgument, "--served-model-name is empty; give it a name");
  }
  if (!flags.api_key_file.empty()) {
    options.api_keys = read_api_keys(flags.api_key_file);
  }
  if (const char* key = std::getenv("PLAIT_API_KEY"); key != nullptr && *key != '\0') {
    options.api_keys.emplace_back(key);
  }
  return options;
}

// Where the flight records go; "" for nowhere.
std::string flight_folder(const ServeFlags& flags) {
  if (flags.run_dir != "auto") {
    return flags.run_dir == "none" ? "" : flags.run_dir;
  }
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = state != nullptr && *state != '\0' ? std::string(state)
                           : home != nullptr && *home != '\0' ? std::string(home) + "/.local/state"
                                                              : "";
  return base.empty() ? "" : fmt::format("{}/plait/serve-{}", base, flags.http.port);
}

// Records of an earlier server of this port would be read together with the new ones.
void start_flight_records(const ServeFlags& flags) {
  const std::string folder = flight_folder(flags);
  if (folder.empty()) {
    return;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (launcher_rank() == 0 && name.starts_with("flight-rank") && name.ends_with(".bin")) {
      std::error_code ignored;
      std::filesystem::remove(it->path(), ignored);
    }
  }
  set_flight_folder(folder);
  log_info(-1, "flight records in {}", folder);
}

std::string describe(const ServeFlags& flags, const OpenedModel& model, const ApiOptions& api) {
  std::string text = fmt::format("model {} as {}, layout {}\n", flags.text.model,
                                 fmt::join(api.model_names, ", "), flags.engine.layout);
  text += model.plan.summary() + "\n";
  text += fmt::format("context {} tokens; {} requests run, {} wait, more get 429\n",
                      model.plan.limits.max_model_len, model.options.max_num_seqs,
                      model.options.max_num_queued);
  text += fmt::format("chat template: {}; keys: {}; TLS: {}\n",
                      model.text.model.chat_template == nullptr ? "none, no chat" : "yes",
                      api.api_keys.empty() ? "none needed" : std::to_string(api.api_keys.size()),
                      flags.http.tls_certificate.empty() ? "no" : "yes");
  return text;
}

void log_lines(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    log_info(-1, "{}", text.substr(begin, end - begin));
    begin = end + 1;
  }
}

// What runs while requests are answered. The order of the members is the order of building; the
// engine ends before the server that its updates are posted to.
class Service {
 public:
  Service(const ServeFlags& flags, OpenedModel& model, const ApiOptions& api)
      : api_(api), server_(flags.http, api_) {
    api_.attach(server_);
    server_.start();
    engine_ = std::make_unique<ServingEngine>(std::move(model.weights), model.options, model.plan);
    ApiModel served;
    served.service = engine_.get();
    served.tokenizer = model.text.model.tokenizer.get();
    served.chat_template = model.text.model.chat_template.get();
    served.defaults = model.text.defaults;
    served.parse_reasoning = parser_on("--reasoning-parser", flags.reasoning_parser);
    served.parse_tools = parser_on("--tool-call-parser", flags.tool_call_parser);
    api_.set_model(served);
  }
  ~Service() {
    server_.stop(kFlushS);
    api_.stop();
    const bool failed = !engine_->stats().failure.empty();
    // A rank that hangs, or still loads, would keep the engine from ending.
    const Watchdog watchdog(failed ? kFailedJoinS : kJoinS, [failed] {
      log_error(-1, "the ranks do not end: ending without them");
      std::fflush(nullptr);
      _exit(failed ? exit_code(ErrorCode::kUnavailable) : 0);
    });
    engine_.reset();
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ServingEngine& engine() { return *engine_; }
  ApiServer& api() { return api_; }
  int port() const { return server_.port(); }

 private:
  ApiServer api_;
  HttpServer server_;
  std::unique_ptr<ServingEngine> engine_;
};

[[noreturn]] void end_at_once(int signal) {
  log_warning(-1, "second signal: ending at once");
  _exit(128 + signal);
}

// Answers in the making may end within the limit; the rest end with an error.
void drain(Service& service, const HeldSignals& signals, double limit_s) {
  log_info(-1, "shutting down: no new requests, {} in the making get {} s",
           service.api().num_active(), limit_s);
  service.api().begin_drain();
  const Deadline deadline = Deadline::after_s(limit_s);
  while (!service.api().draining() || service.api().num_active() > 0) {
    const int signal = signals.take(0.05);
    // A launcher's SIGTERM after the loss of a rank: the answers get their error, then this leaves.
    if (signal != 0 && !(signal == SIGTERM && await_peer_lost())) {
      end_at_once(signal);
    }
    if (deadline.passed()) {
      log_warning(-1, "{} s have passed: {} answers end with an error", limit_s,
                  service.api().num_active());
      service.api().end_answers();
      return;
    }
  }
}

int serve_until_signal(const ServeFlags& flags, Service& service, const HeldSignals& signals) {
  bool ready = false;
  double failed_at_s = 0;
  for (;;) {
    if (signals.take(0.1) != 0) {
      drain(service, signals, flags.drain_timeout_s);
      const bool failed = !service.engine().stats().failure.empty();
      return failed ? exit_code(ErrorCode::kUnavailable) : 0;
    }
    const EngineStats stats = service.engine().stats();
    if (!ready && (stats.ready || !stats.failure.empty())) {
      service.engine().wait_until_ready();  // throws what stood in the way
      ready = true;
      const bool ipv6 = flags.http.host.find(':') != std::string::npos;
      log_info(-1, "ready on {}://{}:{}", flags.http.tls_certificate.empty() ? "http" : "https",
               ipv6 ? "[" + flags.http.host + "]" : flags.http.host, service.port());
    }
    if (!stats.failure.empty() && failed_at_s == 0) {
      failed_at_s = now_s();
      log_error(-1, "the engine failed: {}; answering 503 for {} s", stats.failure,
                flags.engine.options.failure_grace_s);
    }
    if (failed_at_s > 0 && now_s() - failed_at_s >= flags.engine.options.failure_grace_s) {
      throw_error(ErrorCode::kUnavailable, "the engine failed: {}", stats.failure);
    }
  }
}

void check_http_flags(const ServeFlags& flags) {
  const HttpLimits& limits = flags.http.limits;
  const FlagRange ranges[] = {
      {"--port", static_cast<double>(flags.http.port), 0, 65535},
      {"--max-body-mib", flags.body_mib, 0.001, 1024},
      {"--max-connections", static_cast<double>(limits.connections), 1, 1e6},
      {"--write-timeout", limits.write_s, 0.1, kLongestS},
      {"--idle-timeout", limits.idle_s, 0.1, kLongestS},
      {"--request-timeout", flags.api.deadline_s, 0, kLongestS},
      {"--queue-timeout", flags.api.queue_limit_s, 0, kLongestS},
      {"--drain-timeout", flags.drain_timeout_s, 0, kLongestS},
  };
  check_ranges(ranges);
}

int run_serve(ServeFlags& flags) {
  const HeldSignals signals;
  check_http_flags(flags);
  if (flags.http.tls_certificate.empty() != flags.http.tls_key.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "--tls-cert and --tls-key go together; give both");
  }
  OpenedModel model = open_model(flags);
  if (!flags.dry_run) {
    start_flight_records(flags);
  }
  if (launcher_rank() != 0) {  // another process has the server and says when to end
    if (!flags.dry_run) {
      run_serving_worker(model.weights, model.options, model.plan);
    }
    return 0;
  }
  const ApiOptions api = api_options(flags);
  flags.http.limits.body_bytes = static_cast<int64_t>(flags.body_mib * (1 << 20));
  if (flags.dry_run) {
    std::fputs(describe(flags, model, api).c_str(), stdout);
    return 0;
  }
  raise_descriptor_limit();
  log_lines(describe(flags, model, api));
  Service service(flags, model, api);
  log_info(-1, "listening on port {}; requests get 503 until the model is loaded", service.port());
  const int status = serve_until_signal(flags, service, signals);
  log_info(-1, "ended");
  return status;
}

void add_http_options(CLI::App& app, ServeFlags& flags) {
  app.add_option("--host", flags.http.host, "address to listen on; 0.0.0.0: all")
      ->capture_default_str();
  app.add_option("--port", flags.http.port, "0: any free one")->capture_default_str();
  app.add_option("--served-model-name", flags.api.model_names,
                 "names that requests may ask for, several allowed; default: the folder's name");
  app.add_option("--api-key-file", flags.api_key_file,
                 "file with a key a line; requests then need one (Authorization: Bearer KEY). "
                 "PLAIT_API_KEY in the environment is one more");
  app.add_option("--cors-origin", flags.api.cors_origins,
                 "web pages of this origin may call, * for any; default: none");
  app.add_option("--tls-cert", flags.http.tls_certificate, "certificate chain (PEM)");
  app.add_option("--tls-key", flags.http.tls_key, "its key (PEM)");
  app.add_option("--max-body-mib", flags.body_mib, "longest request")->capture_default_str();
  app.add_option("--max-connections", flags.http.limits.connections, "open at a time")
      ->capture_default_str();
  app.add_option("--write-timeout", flags.http.limits.write_s,
                 "seconds after which a client that does not read is let go")
      ->capture_default_str();
  app.add_option("--idle-timeout", flags.http.limits.idle_s,
                 "seconds that a connection may wait between requests")
      ->capture_default_str();
  app.add_option("--request-timeout", flags.api.deadline_s,
                 "longest answer in seconds, from its request; 0: none");
  app.add_option("--queue-timeout", flags.api.queue_limit_s,
                 "longest wait for the first step in seconds; 0: none");
  app.add_option("--drain-timeout", flags.drain_timeout_s,
                 "seconds that answers get to end after SIGTERM")
      ->capture_default_str();
  app.add_option("--failure-grace", flags.engine.options.failure_grace_s,
                 "seconds of 503 after the engine failed, before the server ends with status 3")
      ->capture_default_str();
  app.add_option("--tokenizer-threads", flags.api.num_workers, "threads that read requests")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_flag("--no-access-log", flags.no_access_log, "no line on stderr for each answer");
}

void add_text_options(CLI::App& app, ServeFlags& flags) {
  app.add_option("--chat-template", flags.text.chat_template_file,
                 "Jinja file in place of the model's template");
  app.add_option("--reasoning-parser", flags.reasoning_parser,
                 "auto: <think> goes to reasoning_content; none: it is content")
      ->capture_default_str();
  app.add_option("--tool-call-parser", flags.tool_call_parser,
                 "auto: <tool_call> becomes tool_calls; none: it is content")
      ->capture_default_str();
  app.add_option("--generation-config", flags.generation_config,
                 "auto: sampling defaults from generation_config.json; none: the API's own")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "none"}));
}

}  // namespace

void add_serve_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* serve = app.add_subcommand("serve", "an OpenAI-compatible server for one model");
  serve->footer(
      "Examples:\n"
      "  plait serve --model models/qwen3-0.6b\n"
      "  plait serve --model models/qwen3-8b --layout tp2 --host 0.0.0.0 --api-key-file keys.txt\n"
      "  curl localhost:8000/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", "
      "\"content\": \"Hello\"}]}'\n"
      "SIGTERM or Ctrl-C: no new requests, those in the making end; twice: end at once.\n"
      "More: docs/serving.md");
  serve->add_option("source,--model", flags->text.model, "an HF directory or a GGUF file")
      ->required();
  add_http_options(*serve, *flags);
  add_text_options(*serve, *flags);
  add_engine_options(*serve, flags->engine);
  add_load_options(*serve, flags->engine);
  serve
      ->add_option("--run-dir", flags->run_dir,
                   "folder for the flight records that plait doctor logs reads; auto: "
                   "~/.local/state/plait/serve-PORT; none: no records")
      ->capture_default_str();
  serve->add_flag("--dry-run", flags->dry_run, "check all, print what would be used, and end");
  serve->callback([flags, &chosen] { chosen = [flags] { return run_serve(*flags); }; });
}

}  // namespace plait
