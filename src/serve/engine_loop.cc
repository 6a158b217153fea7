#include "serve/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace plait {
namespace {

// The other ranks hear from rank 0 so often within their deadline, and at least once a second.
constexpr double kBeatsPerDeadline = 6;
constexpr int64_t kWarmUpRows = 64;
constexpr uint64_t kWarmUpId = 0;  // of no request

}  // namespace

EngineLoop::EngineLoop(const ServingOptions& options, const ServingPlan& plan, ServingRank& rank,
                       EngineState& state)
    : options_(options),
      plan_(plan),
      rank_(rank),
      state_(state),
      scheduler_(plan.scheduler),
      admission_({.most = options.max_num_seqs,
                  .target_ttft_s = options.target_ttft_ms / 1e3,
                  .target_tpot_s = options.target_tpot_ms / 1e3}),
      heartbeat_s_(std::min(1.0, options.stall_limit_s / kBeatsPerDeadline)),
      pace_({.max_gap_s = options.max_gap_ms / 1e3, .most_rows = plan.decoder.max_rows}) {
  items_.reserve(static_cast<size_t>(plan.decoder.max_runs));
  logits_.resize(static_cast<size_t>(plan.decoder.vocab_limit));
}

bool EngineLoop::is_eos(int32_t token) const {
  return std::ranges::find(plan_.limits.eos_token_ids, token) != plan_.limits.eos_token_ids.end();
}

bool EngineLoop::is_plain_greedy(const Sequence& sequence) const {
  const SamplingParams& params = sequence.request.sampling;
  return params.greedy() && params.num_logprobs < 0 && params.logit_bias.empty() &&
         params.repetition_penalty == 1 && params.presence_penalty == 0 &&
         params.frequency_penalty == 0 && sequence.generated_count() >= params.min_tokens;
}

FinishReason EngineLoop::finish_after(const Sequence& sequence, int32_t token) const {
  const SamplingParams& params = sequence.request.sampling;
  if (sequence.generated_count() >= params.min_tokens) {
    const bool stopped =
        std::ranges::find(params.stop_token_ids, token) != params.stop_token_ids.end();
    if (stopped || (!params.ignore_eos && is_eos(token))) {
      return FinishReason::kStop;
    }
  }
  return std::ssize(sequence.tokens) >= sequence.last_count ? FinishReason::kLength
                                                            : FinishReason::kNone;
}

void EngineLoop::finish(uint64_t id, FinishReason reason) {
  const std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
  if (sequence != nullptr) {
    RequestUpdate update;
    update.finish = reason;
    update.cached_prompt_tokens = sequence->cached_prompt_tokens;
    sequence->sink(std::move(update));
    state_.request_finished();
  }
}

void EngineLoop::accept(EngineState::Incoming& incoming) {
  for (std::unique_ptr<Sequence>& sequence : incoming.added) {
    const SamplingParams& params = sequence->request.sampling;
    sequence->stop_tokens = params.stop_token_ids;
    if (!params.ignore_eos) {
      sequence->stop_tokens.insert(sequence->stop_tokens.end(), plan_.limits.eos_token_ids.begin(),
                                   plan_.limits.eos_token_ids.end());
    }
    totals_.prompt_tokens += sequence->prompt_count;
    scheduler_.add(std::move(sequence));
  }
  for (const uint64_t id : incoming.cancelled) {
    finish(id, FinishReason::kCancelled);
  }
}

void EngineLoop::expire() {
  for (const uint64_t id : scheduler_.expired(now_s())) {
    finish(id, FinishReason::kDeadline);
  }
}

GeneratedToken EngineLoop::sample(Sequence& sequence, int64_t index) {
  if (is_plain_greedy(sequence)) {
    return {.token = best_[static_cast<size_t>(index)]};
  }
  rank_.decoder().read_logits(index, logits_);
  return sampler_.sample(logits_, sequence.request.sampling,
                         {.prompt = sequence.prompt(),
                          .generated = sequence.generated(),
                          .stop_tokens = sequence.stop_tokens,
                          .seed = sequence.seed});
}

void EngineLoop::deliver(Sequence& sequence, GeneratedToken token) {
  const int32_t id = token.token;
  if (sequence.generated_count() == 0) {
    admission_.record_first_token(now_s() - sequence.submitted_s - sequence.queue_s);
  }
  sequence.tokens.push_back(id);
  ++totals_.generated_tokens;
  RequestUpdate update;
  update.tokens.push_back(std::move(token));
  update.finish = finish_after(sequence, id);
  update.cached_prompt_tokens = sequence.cached_prompt_tokens;
  update.queue_s = sequence.queue_s;
  if (update.finish == FinishReason::kNone) {
    sequence.sink(std::move(update));
    return;
  }
  // The blocks are free and the place is counted before the client hears of the end.
  const std::unique_ptr<Sequence> done = scheduler_.remove(sequence.id);
  if (done->id == kWarmUpId) {
    return;
  }
  state_.request_finished();
  publish();
  done->sink(std::move(update));
}

void EngineLoop::step() {
  const double start_s = now_s();
  const std::vector<ScheduledTokens>& scheduled =
      scheduler_.schedule({.max_running = admission_.limit(),
                           .prefill_beside_decode = pace_.prompt_rows_beside(),
                           .prefill_alone = pace_.prompt_rows_alone()});
  CHECK(!scheduled.empty());
  items_.assign(scheduled.begin(), scheduled.end());
  bool want_logits = false;
  int64_t sampled = 0;
  StepPace::Step pace;
  for (const ScheduledTokens& item : items_) {
    Sequence& sequence = *item.sequence;
    if (sequence.queue_s < 0) {
      sequence.queue_s = start_s - sequence.submitted_s;
    }
    want_logits = want_logits || (item.sample && !is_plain_greedy(sequence));
    sampled += item.sample ? 1 : 0;
    (sequence.decodes() ? pace.decode_rows : pace.prompt_rows) += item.count;
  }
  message_.encode_step(items_, want_logits);
  rank_.lead_step(message_);
  best_.resize(static_cast<size_t>(sampled));
  if (sampled > 0) {
    rank_.decoder().read_best(best_);
  }
  pace.seconds = now_s() - start_s;
  pace_.record(pace);
  if (pace.decode_rows > 0) {
    admission_.record_step_of_decodes(pace.seconds);
  }
  admission_.update(now_s(), scheduler_.num_running());
  told_s_ = start_s;
  scheduler_.advance();
  ++totals_.steps;
  int64_t index = 0;
  for (const ScheduledTokens& item : items_) {
    if (item.sample) {
      deliver(*item.sequence, sample(*item.sequence, index++));
    }
  }
  totals_.step_s += now_s() - start_s;
  publish();
}

void EngineLoop::publish() {
  EngineStats stats = totals_;
  stats.kernel_s = rank_.decoder().kernel_s();
  stats.running = scheduler_.num_running();
  stats.blocks_total = scheduler_.blocks().num_blocks();
  stats.blocks_free = scheduler_.blocks().num_free();
  stats.block_tokens = kKvBlockTokens;
  stats.prefix_queries = scheduler_.counters().prefix_queries;
  stats.prefix_hits = scheduler_.counters().prefix_hits;
  stats.preemptions = scheduler_.counters().preemptions;
  stats.max_concurrency = admission_.limit();
  state_.publish(stats);
}

void EngineLoop::warm_up() {
  const int64_t rows =
      std::min({kWarmUpRows, plan_.decoder.max_rows, plan_.limits.max_model_len - 2});
  // A few rows first: they tell how many a step may have.
  for (const int64_t prompt :
       {int64_t{1}, std::clamp<int64_t>(rows, 1, 16), std::max<int64_t>(rows, 1)}) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = kWarmUpId;
    sequence->tokens.assign(static_cast<size_t>(prompt), 0);
    sequence->prompt_count = prompt;
    sequence->last_count = std::min(prompt + 2, plan_.limits.max_model_len);
    sequence->request.sampling = {.temperature = 0, .ignore_eos = true};
    sequence->sink = [](const RequestUpdate&) {};
    scheduler_.add(std::move(sequence));
    while (!scheduler_.idle()) {
      step();
    }
  }
  scheduler_ = Scheduler(plan_.scheduler);
  totals_ = {};
  publish();
}

void EngineLoop::run() {
  for (;;) {
    state_.take(incoming_, scheduler_.idle() ? heartbeat_s_ / 2 : 0);
    accept(incoming_);
    expire();
    if (incoming_.stopping) {
      fail_requests(Error(ErrorCode::kCancelled, "the server is shutting down"));
      message_.encode(StepKind::kStop);
      rank_.tell(message_);
      return;
    }
    if (!scheduler_.idle()) {
      step();
      continue;
    }
    if (now_s() - told_s_ > heartbeat_s_) {
      message_.encode(StepKind::kIdle);
      rank_.tell(message_);
      told_s_ = now_s();
    }
    publish();
  }
}

void EngineLoop::fail_requests(const Error& error) {
  for (std::unique_ptr<Sequence>& sequence : state_.fail(error)) {
    scheduler_.add(std::move(sequence));
  }
  for (const uint64_t id : scheduler_.ids()) {
    const std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
    RequestUpdate update;
    update.finish = FinishReason::kError;
    update.error = error.message();
    sequence->sink(std::move(update));
    state_.request_finished();
  }
}

}  // namespace plait
