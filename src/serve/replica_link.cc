#include "serve/replica_link.h"

#include <pthread.h>

#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

// How long the leading side waits for a token before it asks for new requests and cancellations.
constexpr double kPaceS = 2e-3;

}  // namespace

ReplicaFront::ReplicaFront(std::unique_ptr<ProcessGroup> link, EngineState& state, double beat_s)
    : link_(std::move(link)), state_(state), beat_s_(beat_s) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "plait-front");
    try {
      run();
    } catch (const std::exception& error) {
      fail_requests(Error(ErrorCode::kComm, error.what()));
    }
  });
}

ReplicaFront::~ReplicaFront() {
  abandoned_ = true;
  thread_.join();
}

void ReplicaFront::run() {
  for (;;) {
    state_.take(incoming_, open_.empty() ? beat_s_ : 0);
    const ReplicaOrders out = orders();
    take(decode_news(link_->gather_bytes(encode_orders(out))[1]));
    if (out.stopping) {
      fail_requests(Error(ErrorCode::kCancelled, "the server is shutting down"));
      return;
    }
    if (abandoned_ && !incoming_.stopping) {
      return;
    }
  }
}

ReplicaOrders ReplicaFront::orders() {
  ReplicaOrders out;
  out.stopping = incoming_.stopping;
  out.cancelled = std::move(incoming_.cancelled);
  for (std::unique_ptr<Sequence>& sequence : incoming_.added) {
    ReplicaOrders::Added& added = out.added.emplace_back();
    added.id = sequence->id;
    added.request = std::move(sequence->request);
    added.request.prompt = std::move(sequence->tokens);
    added.request.sampling.seed = sequence->seed;
    open_.emplace(added.id, std::move(sequence));
  }
  return out;
}

void ReplicaFront::take(ReplicaNews news) {
  state_.publish(news.stats);
  if (news.stats.ready && !ready_) {
    ready_ = true;
    state_.set_ready();
  }
  for (ReplicaNews::Item& item : news.updates) {
    const auto found = open_.find(item.id);
    if (found == open_.end()) {
      continue;
    }
    if (item.update.finish == FinishReason::kNone) {
      found->second->sink(std::move(item.update));
      continue;
    }
    const std::unique_ptr<Sequence> done = std::move(found->second);
    open_.erase(found);
    state_.request_finished();
    done->sink(std::move(item.update));
  }
}

void ReplicaFront::fail_requests(const Error& error) {
  for (std::unique_ptr<Sequence>& sequence : state_.fail(error)) {
    open_.emplace(sequence->id, std::move(sequence));
  }
  for (const auto& [id, sequence] : open_) {
    RequestUpdate update;
    update.finish = FinishReason::kError;
    update.error = error.message();
    sequence->sink(std::move(update));
    state_.request_finished();
  }
  open_.clear();
}

ReplicaBack::ReplicaBack(std::unique_ptr<ProcessGroup> link, EngineState& state)
    : link_(std::move(link)), state_(state) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "plait-back");
    try {
      run();
    } catch (const std::exception&) {
      // The other side is lost or has failed, and the transport says so to every rank.
      state_.stop();
    }
  });
}

ReplicaBack::~ReplicaBack() {
  abandoned_ = true;
  thread_.join();
}

void ReplicaBack::run() {
  while (!abandoned_) {
    const std::string out = encode_news(news());
    ReplicaOrders orders = decode_orders(link_->gather_bytes(out)[0]);
    const bool stopping = orders.stopping;
    obey(std::move(orders));
    if (stopping) {
      state_.stop();
      return;
    }
  }
}

ReplicaNews ReplicaBack::news() {
  ReplicaNews news;
  {
    std::unique_lock lock(mutex_);
    if (!own_ids_.empty()) {
      changed_.wait_for(lock, std::chrono::duration<double>(kPaceS),
                        [this] { return !updates_.empty(); });
    }
    news.updates = std::exchange(updates_, {});
  }
  for (const ReplicaNews::Item& item : news.updates) {
    if (item.update.finish != FinishReason::kNone) {
      own_ids_.erase(item.id);
    }
  }
  news.stats = state_.stats();
  return news;
}

void ReplicaBack::obey(ReplicaOrders orders) {
  for (ReplicaOrders::Added& added : orders.added) {
    const uint64_t id = added.id;
    const GenerationService::Submission submission = state_.submit(
        std::move(added.request),
        [this, id](RequestUpdate update) { put({.id = id, .update = std::move(update)}); });
    own_ids_[id] = submission.id;
    if (submission.admission != Admission::kAccepted) {
      RequestUpdate update;
      update.finish = FinishReason::kError;
      update.error = "the replica takes no requests";
      put({.id = id, .update = std::move(update)});
    }
  }
  for (const uint64_t id : orders.cancelled) {
    if (const auto found = own_ids_.find(id); found != own_ids_.end()) {
      state_.cancel(found->second);
    }
  }
}

void ReplicaBack::put(ReplicaNews::Item item) {
  const std::scoped_lock lock(mutex_);
  updates_.push_back(std::move(item));
  changed_.notify_all();
}

}  // namespace plait
