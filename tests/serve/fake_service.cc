#include "serve/fake_service.h"

#include <chrono>
#include <utility>

namespace plait {

FakeService::FakeService(const EngineLimits& limits) : limits_(limits) {
  stats_.ready = true;
  stats_.blocks_total = stats_.blocks_free = 100;
  thread_ = std::thread([this] { run(); });
}

FakeService::~FakeService() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void FakeService::set_reply(std::function<std::vector<int32_t>(const GenerationRequest&)> reply) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reply_ = std::move(reply);
}

void FakeService::set_step_s(double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_s_ = seconds;
}

void FakeService::pause(bool paused) {
  const std::lock_guard<std::mutex> lock(mutex_);
  paused_ = paused;
}

void FakeService::set_admission(Admission admission) {
  const std::lock_guard<std::mutex> lock(mutex_);
  admission_ = admission;
}

void FakeService::set_most_running(int64_t most) {
  const std::lock_guard<std::mutex> lock(mutex_);
  most_running_ = most;
}

void FakeService::set_stats(const std::function<void(EngineStats&)>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change(stats_);
}

void FakeService::end_all(FinishReason reason, const std::string& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& item : running_) {
    RequestUpdate update;
    update.finish = reason;
    update.error = error;
    item.second.sink(std::move(update));
  }
  running_.clear();
}

std::vector<GenerationRequest> FakeService::requests() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return accepted_;
}

int64_t FakeService::num_running() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(running_.size());
}

int64_t FakeService::num_cancelled() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_cancelled_;
}

bool FakeService::await_running(int64_t count) const {
  for (int i = 0; i < 1000 && num_running() != count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return num_running() == count;
}

FakeService::Submission FakeService::submit(GenerationRequest request, UpdateSink sink) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Submission submission;
  submission.retry_after_s = 2.5;
  submission.admission = admission_;
  if (static_cast<int64_t>(running_.size()) >= most_running_) {
    submission.admission = Admission::kQueueFull;
  }
  if (submission.admission != Admission::kAccepted) {
    return submission;
  }
  accepted_.push_back(request);
  Running running;
  running.endless = !reply_;
  if (reply_) {
    running.reply = reply_(request);
    running.reply.push_back(limits_.eos_token_ids.at(0));
  }
  running.request = std::move(request);
  running.sink = std::move(sink);
  submission.id = next_id_++;
  running_.emplace(submission.id, std::move(running));
  return submission;
}

void FakeService::cancel(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  num_cancelled_ += static_cast<int64_t>(running_.erase(id));
}

void FakeService::drain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_.draining = true;
  admission_ = Admission::kUnavailable;
}

EngineStats FakeService::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  EngineStats stats = stats_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.blocks_free -= stats.running;
  return stats;
}

RequestUpdate FakeService::next_update(Running& running) const {
  RequestUpdate update;
  update.queue_s = 0.001;
  update.cached_prompt_tokens = 1;
  GeneratedToken token;
  token.token =
      running.endless ? 'a' + static_cast<int32_t>(running.next % 26) : running.reply[running.next];
  if (running.request.sampling.num_logprobs >= 0) {
    token.logprob = -0.5F;
    for (int i = 0; i < running.request.sampling.num_logprobs; ++i) {
      token.top.push_back({token.token + i, -0.5F - static_cast<float>(i)});
    }
  }
  ++running.next;
  ++running.given;
  if (!running.endless && running.next == running.reply.size()) {
    update.finish = FinishReason::kStop;
  } else if (running.given >= running.request.sampling.max_tokens) {
    update.finish = FinishReason::kLength;
  }
  update.tokens.push_back(std::move(token));
  return update;
}

void FakeService::step() {
  for (auto item = running_.begin(); item != running_.end();) {
    RequestUpdate update = next_update(item->second);
    const bool last = update.finish != FinishReason::kNone;
    item->second.sink(std::move(update));
    item = last ? running_.erase(item) : std::next(item);
  }
}

void FakeService::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (!paused_) {
      step();
    }
    const double wait_s = step_s_;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
    lock.lock();
  }
}

}  // namespace plait
