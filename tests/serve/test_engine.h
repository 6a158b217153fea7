// Starts engines on the golden models and collects what they answer.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/engine.h"

namespace plait {

inline std::string golden_directory(const std::string& model) {
  return std::string(std::getenv("PLAIT_TEST_DATA")) + "/goldens/" + model;
}

inline std::unique_ptr<ServingEngine> start_engine(const std::string& directory,
                                                   ServingOptions options) {
  ServedModel model = open_served_model(directory);
  options.threads_per_rank = options.threads_per_rank > 0 ? options.threads_per_rank : 1;
  const ServingPlan plan = plan_serving(model, options, host_limits(options.layout));
  auto engine = std::make_unique<ServingEngine>(std::move(model), options, plan);
  engine->wait_until_ready();
  return engine;
}

// KV blocks for so many tokens of a model, as the option kv_cache_gib.
inline double cache_gib(const std::string& directory, const ServingOptions& options,
                        int64_t tokens) {
  const ServedModel model = open_served_model(directory);
  const ServingPlan plan = plan_serving(model, options, host_limits(options.layout));
  const int64_t blocks = tokens / kKvBlockTokens;
  return (static_cast<double>(blocks) + 0.5) * static_cast<double>(plan.block_bytes) / 0x1p30;
}

// Collects the updates of many requests.
class Answers {
 public:
  struct Answer {
    std::vector<int32_t> tokens;
    std::vector<GeneratedToken> details;
    FinishReason finish = FinishReason::kNone;
    std::string error;
    int64_t cached = 0;
    std::vector<int64_t> others_tokens;  // by index, when this one ended
  };

  // Returns the index of the answer.
  size_t submit(GenerationService& engine, GenerationRequest request) {
    size_t index = 0;
    {
      const std::scoped_lock lock(mutex_);
      index = answers_.size();
      answers_.emplace_back();
      ids_.push_back(0);
    }
    const auto submission = engine.submit(std::move(request), [this, index](RequestUpdate update) {
      std::unique_lock lock(mutex_);
      Answer& answer = answers_[index];
      for (GeneratedToken& token : update.tokens) {
        answer.tokens.push_back(token.token);
        answer.details.push_back(std::move(token));
      }
      answer.finish = update.finish;
      if (update.finish != FinishReason::kNone) {
        answer.others_tokens.clear();
        for (const Answer& other : answers_) {
          answer.others_tokens.push_back(std::ssize(other.tokens));
        }
      }
      answer.error = update.error;
      answer.cached = update.cached_prompt_tokens;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !paused_; });
    });
    const std::scoped_lock lock(mutex_);
    ids_[index] = submission.id;
    if (submission.admission != Admission::kAccepted) {
      answers_[index].finish = FinishReason::kError;
      answers_[index].error = "not accepted";
    }
    return index;
  }

  // Holds the engine at its next update, until pause(false).
  void pause(bool on) {
    const std::scoped_lock lock(mutex_);
    paused_ = on;
    changed_.notify_all();
  }

  // Waits until the request has so many tokens, or has ended.
  void wait_tokens(size_t index, size_t tokens) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return answers_[index].tokens.size() >= tokens ||
             answers_[index].finish != FinishReason::kNone;
    });
  }
  Answer wait(size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_[index].finish != FinishReason::kNone; });
    return answers_[index];
  }
  // Tokens that `other` had when `index` ended.
  int64_t tokens_before(size_t index, size_t other) {
    const std::scoped_lock lock(mutex_);
    return answers_[index].others_tokens.at(other);
  }
  uint64_t id(size_t index) {
    const std::scoped_lock lock(mutex_);
    return ids_[index];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false;
  std::vector<Answer> answers_;
  std::vector<uint64_t> ids_;
};

}  // namespace plait
