// dp replicas under an MPI launcher: the process that answers clients (rank 0) hands each other
// replica's requests to the rank that leads it, and its tokens back. Both sides exchange messages
// in turn on a group of two; a thread of each side does nothing else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "comm/process_group.h"
#include "serve/engine_state.h"
#include "serve/replica_message.h"

namespace plait {

// The side that answers clients. Stands for the engine's thread of `state`: what is submitted there
// goes to the replica.
class ReplicaFront {
 public:
  // `link`: rank 0 is this side. Both must outlive the front.
  ReplicaFront(std::unique_ptr<ProcessGroup> link, EngineState& state, double beat_s);
  // Ends the thread, without the other side unless state.stop() was called before.
  ~ReplicaFront();
  ReplicaFront(const ReplicaFront&) = delete;
  ReplicaFront& operator=(const ReplicaFront&) = delete;

 private:
  void run();
  ReplicaOrders orders();
  void take(ReplicaNews news);
  void fail_requests(const Error& error);

  std::unique_ptr<ProcessGroup> link_;
  EngineState& state_;
  double beat_s_;
  EngineState::Incoming incoming_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> open_;
  bool ready_ = false;
  std::atomic<bool> abandoned_ = false;
  std::thread thread_;
};

// The side that leads the replica, with the engine's `state`. Stops it when the other side says so
// or is lost.
class ReplicaBack {
 public:
  ReplicaBack(std::unique_ptr<ProcessGroup> link, EngineState& state);
  ~ReplicaBack();
  ReplicaBack(const ReplicaBack&) = delete;
  ReplicaBack& operator=(const ReplicaBack&) = delete;

 private:
  void run();
  ReplicaNews news();
  void obey(ReplicaOrders orders);
  void put(ReplicaNews::Item item);

  std::unique_ptr<ProcessGroup> link_;
  EngineState& state_;
  std::unordered_map<uint64_t, uint64_t> own_ids_;  // by the front's; of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ReplicaNews::Item> updates_;
  std::atomic<bool> abandoned_ = false;
  std::thread thread_;
};

}  // namespace plait
