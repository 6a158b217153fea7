// One answer in the making: submits its choices to the engine, turns updates into chunks or a
// whole answer. Lives on the I/O thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/http_types.h"
#include "serve/openai_response.h"
#include "serve/output_text.h"
#include "serve/prepare.h"
#include "serve/serve_metrics.h"

namespace plait {

// What happened to an answer; for the log and the metrics.
struct JobReport {
  int status = 200;
  std::string outcome;  // "stop", "length", "tool_calls", "abort", an error's code
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  double ttft_s = -1;
};

class GenerationJob final : public std::enable_shared_from_this<GenerationJob> {
 public:
  struct Setup {
    AnswerHead head;
    PreparedRequest request;
    std::shared_ptr<const ApiModel> model;
    std::shared_ptr<ResponseWriter> writer;
    HttpHeaders headers;  // of the answer, whatever it is
    ServeMetrics* metrics = nullptr;
    std::function<void(std::function<void()>)> post;  // to the I/O thread; from any
    std::function<void(const JobReport&)> on_done;    // once, on the I/O thread
    double arrival_s = 0;
    double deadline_s = 0;     // from the arrival; 0: none
    double queue_limit_s = 0;  // 0: none
  };
  explicit GenerationJob(Setup setup);

  // Answers at once if the engine refuses.
  void start();
  // Ends the answer with an error: a response, or an event if the stream has begun.
  void fail(const ApiProblem& problem);
  void client_gone();
  bool done() const { return done_; }

 private:
  struct Choice {
    uint64_t id = 0;  // the engine's
    bool submitted = false;
    size_t prompt = 0;
    bool finished = false;
    bool begun = false;  // a chunk was sent
    OutputText text;
    AnswerChoice answer;
    int64_t num_tokens = 0;
    int64_t logprob_offset = 0;
    int64_t cached_tokens = 0;
    double queue_s = -1;
    double first_s = -1;  // when tokens came, since the arrival
    double last_s = -1;
    explicit Choice(OutputText output) : text(std::move(output)) {}
  };

  OutputText make_output() const;
  bool submit(Choice& choice);
  void on_update(size_t index, const RequestUpdate& update);
  bool take_failure(const Choice& choice, const RequestUpdate& update);
  // Returns true if the choice is complete.
  bool take_tokens(Choice& choice, const RequestUpdate& update, AnswerChoice& delta);
  void record_times(Choice& choice, const RequestUpdate& update);
  void send_delta(Choice& choice, const AnswerChoice& delta);
  void keep_delta(Choice& choice, AnswerChoice delta);
  void send_event(const std::string& json);
  void finish_choice(Choice& choice, const std::string& reason);
  void complete();
  void cancel_all(const std::string& reason);
  void end(int status, const std::string& outcome);
  AnswerUsage usage() const;
  LogprobsOptions logprobs_of(const Choice& choice) const;
  int64_t num_prompt_tokens() const;

  Setup setup_;
  std::vector<Choice> choices_;
  size_t num_finished_ = 0;
  bool streaming_ = false;  // the head is out
  bool done_ = false;
  bool reported_ = false;
};

}  // namespace plait
