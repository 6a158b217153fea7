#include "serve/generation_job.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace plait {

GenerationJob::GenerationJob(Setup setup) : setup_(std::move(setup)) {
  const OpenAiRequest& options = setup_.request.options;
  for (size_t prompt = 0; prompt < setup_.request.prompts.size(); ++prompt) {
    for (int64_t i = 0; i < options.n; ++i) {
      Choice choice(make_output());
      choice.prompt = prompt;
      choice.answer.index = static_cast<int64_t>(choices_.size());
      choices_.push_back(std::move(choice));
    }
  }
}

OutputText GenerationJob::make_output() const {
  const OpenAiRequest& options = setup_.request.options;
  OutputOptions output;
  output.decode.skip_special_tokens = options.skip_special_tokens;
  output.stops = options.stops;
  output.include_stop = options.include_stop;
  output.reasoning = setup_.request.reasoning;
  output.tools = setup_.request.tools;
  output.one_call = !options.parallel_tool_calls;
  return OutputText(*setup_.model->tokenizer, std::move(output));
}

bool GenerationJob::submit(Choice& choice) {
  const int64_t n = setup_.request.options.n;
  GenerationRequest request;
  request.prompt = setup_.request.prompts[choice.prompt];
  request.sampling = setup_.request.sampling_of(choice.prompt, choice.answer.index % n);
  request.priority = setup_.request.options.priority;
  request.queue_limit_s = setup_.queue_limit_s;
  if (setup_.deadline_s > 0) {
    request.deadline_s = std::max(setup_.deadline_s - (now_s() - setup_.arrival_s), 1e-3);
  }
  const auto index = static_cast<size_t>(choice.answer.index);
  auto sink = [self = shared_from_this(), post = setup_.post, index](RequestUpdate update) {
    post([self, index, update = std::move(update)] { self->on_update(index, update); });
  };
  const GenerationService::Submission submission =
      setup_.model->service->submit(std::move(request), std::move(sink));
  if (submission.admission == Admission::kAccepted) {
    choice.id = submission.id;
    choice.submitted = true;
    return true;
  }
  setup_.metrics->refused();
  if (submission.admission == Admission::kQueueFull) {
    fail(queue_full_problem(submission.retry_after_s));
  } else {
    fail(unavailable_problem("unavailable", "the server accepts no requests at present",
                             submission.retry_after_s));
  }
  return false;
}

void GenerationJob::start() {
  setup_.writer->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->client_gone();
    }
  });
  for (Choice& choice : choices_) {
    if (!submit(choice)) {
      return;
    }
  }
}

int64_t GenerationJob::num_prompt_tokens() const {
  int64_t count = 0;
  for (const auto& prompt : setup_.request.prompts) {
    count += static_cast<int64_t>(prompt.size());
  }
  return count;
}

AnswerUsage GenerationJob::usage() const {
  AnswerUsage usage;
  usage.prompt_tokens = num_prompt_tokens();
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.num_tokens;
    usage.reasoning_tokens += choice.text.reasoning_tokens();
    if (choice.answer.index % setup_.request.options.n == 0) {
      usage.cached_tokens += choice.cached_tokens;  // of each prompt once
    }
  }
  return usage;
}

LogprobsOptions GenerationJob::logprobs_of(const Choice& choice) const {
  LogprobsOptions options;
  if (setup_.request.options.sampling.num_logprobs >= 0) {
    options.tokenizer = setup_.model->tokenizer;
    options.text_offset = choice.logprob_offset;
  }
  return options;
}

// Returns true if the update ended the answer.
bool GenerationJob::take_failure(const Choice& choice, const RequestUpdate& update) {
  switch (update.finish) {
    case FinishReason::kError:
      fail(server_problem("the engine failed while it made this answer: " + update.error));
      return true;
    case FinishReason::kCancelled:  // not by this job, which is done once it cancels
      fail(unavailable_problem("draining", "the server is shutting down", 5));
      return true;
    case FinishReason::kDeadline: {
      ApiProblem problem = unavailable_problem(
          "deadline_exceeded", "the request's time limit passed before its answer was complete", 1);
      problem.status = choice.num_tokens > 0 ? 504 : 503;
      fail(problem);
      return true;
    }
    default:
      return false;
  }
}

bool GenerationJob::take_tokens(Choice& choice, const RequestUpdate& update, AnswerChoice& delta) {
  const OpenAiRequest& options = setup_.request.options;
  for (size_t i = 0; i < update.tokens.size() && !choice.text.stop_string(); ++i) {
    const GeneratedToken& token = update.tokens[i];
    ++choice.num_tokens;
    if (options.sampling.num_logprobs >= 0) {
      delta.tokens.push_back(token);
    }
    // The token that ended it is no text.
    const bool ends = update.finish == FinishReason::kStop && i + 1 == update.tokens.size();
    if (!ends || options.include_stop) {
      choice.text.push(token.token, delta.text);
    }
  }
  const bool stopped = choice.text.stop_string().has_value();
  if (!stopped && update.finish == FinishReason::kNone) {
    return false;
  }
  choice.text.finish(delta.text);
  delta.stop_string = choice.text.stop_string();
  const bool at_stop = delta.stop_string || update.finish == FinishReason::kStop;
  delta.finish_reason = finish_reason_name(at_stop ? FinishReason::kStop : FinishReason::kLength,
                                           choice.text.num_calls());
  if (update.finish == FinishReason::kNone) {
    setup_.model->service->cancel(choice.id);
  }
  return true;
}

void GenerationJob::record_times(Choice& choice, const RequestUpdate& update) {
  choice.cached_tokens = std::max(choice.cached_tokens, update.cached_prompt_tokens);
  choice.queue_s = std::max(choice.queue_s, update.queue_s);
  if (update.tokens.empty()) {
    return;
  }
  const double since_arrival = now_s() - setup_.arrival_s;
  if (choice.first_s < 0) {
    choice.first_s = since_arrival;
    setup_.metrics->first_token(since_arrival);
  } else {
    setup_.metrics->next_tokens(since_arrival - choice.last_s,
                                static_cast<int64_t>(update.tokens.size()));
  }
  choice.last_s = since_arrival;
}

void GenerationJob::on_update(size_t index, const RequestUpdate& update) {
  if (done_) {
    return;
  }
  Choice& choice = choices_[index];
  if (choice.finished || take_failure(choice, update)) {
    return;
  }
  record_times(choice, update);
  if (update.tokens.empty() && update.finish == FinishReason::kNone) {
    return;
  }
  AnswerChoice delta;
  delta.index = choice.answer.index;
  const bool complete_now = take_tokens(choice, update, delta);
  const std::string reason = delta.finish_reason;
  if (!setup_.request.echoes.empty() && !choice.begun) {
    delta.text.content.insert(0, setup_.request.echoes[choice.prompt]);
  }
  if (setup_.request.options.stream) {
    send_delta(choice, delta);
  } else {
    keep_delta(choice, std::move(delta));
  }
  choice.begun = true;
  if (complete_now && !done_) {
    finish_choice(choice, reason);
  }
}

void GenerationJob::send_event(const std::string& json) {
  if (!streaming_) {
    streaming_ = true;
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = setup_.headers;
    head.headers.emplace_back("cache-control", "no-cache");
    head.headers.emplace_back("x-accel-buffering", "no");
    setup_.writer->start_stream(head);
  }
  setup_.writer->write("data: " + json + "\n\n");
}

void GenerationJob::send_delta(Choice& choice, const AnswerChoice& delta) {
  const OpenAiRequest& options = setup_.request.options;
  AnswerChoice shown = delta;
  if (!options.include_reasoning) {
    shown.text.reasoning.clear();
  }
  ChunkOptions chunk;
  chunk.first = !choice.begun;
  chunk.logprobs = logprobs_of(choice);
  chunk.usage_null = options.include_usage;
  if (options.continuous_usage) {
    chunk.usage = usage();
  }
  for (const GeneratedToken& token : delta.tokens) {
    choice.logprob_offset += count_characters(setup_.model->tokenizer->token_text(token.token));
  }
  send_event(chunk_json(setup_.head, shown, chunk));
}

void GenerationJob::keep_delta(Choice& choice, AnswerChoice delta) {
  AnswerChoice& answer = choice.answer;
  answer.text.content += delta.text.content;
  if (setup_.request.options.include_reasoning) {
    answer.text.reasoning += delta.text.reasoning;
  }
  for (OutputDelta::Call& call : delta.text.calls) {
    if (call.starts) {
      answer.text.calls.push_back(std::move(call));
    } else if (!answer.text.calls.empty()) {
      answer.text.calls.back().arguments += call.arguments;
    }
  }
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(answer.tokens));
  answer.finish_reason = delta.finish_reason;
  answer.stop_string = delta.stop_string;
}

void GenerationJob::finish_choice(Choice& choice, const std::string& reason) {
  choice.finished = true;
  ++num_finished_;
  ServeMetrics::Finished finished;
  finished.reason = reason;
  finished.e2e_s = now_s() - setup_.arrival_s;
  finished.queue_s = choice.queue_s;
  if (choice.first_s >= 0) {
    finished.prefill_s = std::max(choice.first_s - std::max(choice.queue_s, 0.0), 0.0);
    finished.decode_s = choice.last_s - choice.first_s;
  }
  finished.prompt_tokens = static_cast<int64_t>(setup_.request.prompts[choice.prompt].size());
  finished.generation_tokens = choice.num_tokens;
  finished.max_tokens = setup_.request.max_tokens[choice.prompt];
  setup_.metrics->finished(finished);
  if (num_finished_ == choices_.size() && !done_) {
    complete();
  }
}

void GenerationJob::complete() {
  if (setup_.request.options.stream) {
    if (setup_.request.options.include_usage) {
      send_event(usage_chunk_json(setup_.head, usage()));
    }
    send_event("[DONE]");
    setup_.writer->finish();
  } else {
    std::vector<AnswerChoice> answers;
    for (Choice& choice : choices_) {
      answers.push_back(std::move(choice.answer));
    }
    HttpResponse response;
    LogprobsOptions logprobs = logprobs_of(choices_.front());
    response.body = answer_json(setup_.head, answers, usage(), logprobs);
    response.headers = setup_.headers;
    setup_.writer->respond(std::move(response));
    end(200, answers.front().finish_reason);
    return;
  }
  end(200, "complete");
}

void GenerationJob::cancel_all(const std::string& reason) {
  done_ = true;  // finish_choice must not complete the answer
  for (Choice& choice : choices_) {
    if (choice.submitted && !choice.finished) {
      setup_.model->service->cancel(choice.id);
      finish_choice(choice, reason);
    }
  }
}

void GenerationJob::end(int status, const std::string& outcome) {
  done_ = true;
  if (std::exchange(reported_, true)) {
    return;  // the client went while the last bytes were queued
  }
  JobReport report;
  report.status = status;
  report.outcome = outcome;
  report.prompt_tokens = num_prompt_tokens();
  for (const Choice& choice : choices_) {
    report.completion_tokens += choice.num_tokens;
  }
  report.ttft_s = choices_.front().first_s;
  setup_.on_done(report);
}

void GenerationJob::fail(const ApiProblem& problem) {
  if (done_) {
    return;
  }
  cancel_all("error");
  if (streaming_) {
    send_event(problem_json(problem));
    send_event("[DONE]");
    setup_.writer->finish();
  } else {
    HttpResponse response = problem_response(problem);
    response.headers.insert(response.headers.end(), setup_.headers.begin(), setup_.headers.end());
    setup_.writer->respond(std::move(response));
  }
  end(problem.status, problem.code);
}

void GenerationJob::client_gone() {
  if (done_) {
    return;
  }
  cancel_all("abort");
  end(499, "client_gone");
}

}  // namespace plait
