#include "serve/engine_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/rng.h"

namespace plait {
namespace {

constexpr double kLongestRetryS = 60;

}  // namespace

EngineState::EngineState(const Options& options) : options_(options) {
  stats_.max_concurrency = options.max_num_seqs;
}

GenerationService::Submission EngineState::submit(GenerationRequest request, UpdateSink sink) {
  const std::scoped_lock lock(mutex_);
  GenerationService::Submission submission;
  if (!stats_.ready || stats_.draining || !stats_.failure.empty() || inbox_.stopping) {
    submission.admission = Admission::kUnavailable;
    submission.retry_after_s = stats_.ready ? 5 : 2;
    return submission;
  }
  const int64_t waiting = unfinished_ - std::min(unfinished_, stats_.max_concurrency);
  if (unfinished_ >= stats_.max_concurrency + options_.max_num_queued) {
    ++rejections_;
    submission.admission = Admission::kQueueFull;
    submission.retry_after_s =
        finish_rate_ > 0 ? std::clamp(std::ceil(static_cast<double>(waiting + 1) / finish_rate_),
                                      1.0, kLongestRetryS)
                         : 1;
    return submission;
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->id = ++last_id_;
  sequence->submitted_s = now_s();
  sequence->sink = std::move(sink);
  sequence->prompt_count = std::ssize(request.prompt);
  sequence->tokens = std::move(request.prompt);
  // No sum that a huge max_tokens could overflow.
  sequence->last_count =
      sequence->prompt_count +
      std::min(request.sampling.max_tokens, options_.max_model_len - sequence->prompt_count);
  sequence->tokens.reserve(static_cast<size_t>(sequence->last_count));
  sequence->seed = request.sampling.seed.value_or(
      random_bits(options_.seed, hash_name("request"), sequence->id));
  sequence->request = std::move(request);
  submission.id = sequence->id;
  ++unfinished_;
  inbox_.added.push_back(std::move(sequence));
  changed_.notify_all();
  return submission;
}

void EngineState::cancel(uint64_t id) {
  const std::scoped_lock lock(mutex_);
  inbox_.cancelled.push_back(id);
  changed_.notify_all();
}

void EngineState::drain() {
  const std::scoped_lock lock(mutex_);
  stats_.draining = true;
  changed_.notify_all();
}

void EngineState::stop() {
  const std::scoped_lock lock(mutex_);
  inbox_.stopping = true;
  changed_.notify_all();
}

EngineStats EngineState::stats() const {
  const std::scoped_lock lock(mutex_);
  EngineStats stats = stats_;
  stats.rejections = rejections_;
  stats.waiting = std::max<int64_t>(0, unfinished_ - stats.running);
  stats.step_age_s = unfinished_ > 0 ? now_s() - alive_s_ : 0;
  return stats;
}

int64_t EngineState::unfinished() const {
  const std::scoped_lock lock(mutex_);
  return unfinished_;
}

std::optional<Error> EngineState::wait_until_ready() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stats_.ready || failure_.has_value(); });
  return failure_;
}

void EngineState::take(Incoming& incoming, double timeout_s) {
  std::unique_lock lock(mutex_);
  const auto anything = [this] {
    return !inbox_.added.empty() || !inbox_.cancelled.empty() || inbox_.stopping;
  };
  if (timeout_s > 0 && !anything()) {
    changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), anything);
    alive_s_ = now_s();
  }
  incoming.added.clear();
  incoming.cancelled.clear();
  std::swap(incoming.added, inbox_.added);
  std::swap(incoming.cancelled, inbox_.cancelled);
  incoming.stopping = inbox_.stopping;
}

void EngineState::set_ready() {
  const std::scoped_lock lock(mutex_);
  stats_.ready = true;
  changed_.notify_all();
}

void EngineState::publish(const EngineStats& stats) {
  const std::scoped_lock lock(mutex_);
  EngineStats next = stats;
  next.ready = stats_.ready;
  next.draining = stats_.draining;
  next.failure = std::move(stats_.failure);
  stats_ = std::move(next);
  alive_s_ = now_s() - stats.step_age_s;
}

void EngineState::request_finished() {
  const std::scoped_lock lock(mutex_);
  --unfinished_;
  const double now = now_s();
  if (last_finish_s_ > 0) {
    const double rate = 1 / std::max(now - last_finish_s_, 1e-3);
    finish_rate_ = finish_rate_ > 0 ? 0.8 * finish_rate_ + 0.2 * rate : rate;
  }
  last_finish_s_ = now;
}

std::vector<std::unique_ptr<Sequence>> EngineState::fail(const Error& error) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.has_value()) {
    failure_ = error;
    stats_.failure = error.message();
  }
  changed_.notify_all();
  return std::exchange(inbox_.added, {});
}

}  // namespace plait
