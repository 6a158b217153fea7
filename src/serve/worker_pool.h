// A few threads with a bounded queue: work that is too long for the I/O thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace plait {

class WorkerPool {
 public:
  struct Options {
    int num_threads = 2;
    int64_t most_waiting = 1024;
  };
  explicit WorkerPool(const Options& options);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False if the queue is full. `work` must not throw. Thread-safe.
  bool submit(std::function<void()> work);
  // Drops what waits and joins the threads once what runs has ended. One caller at a time.
  void stop();

 private:
  void run();

  int64_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plait
