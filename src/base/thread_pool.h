// A fixed team of threads that splits loops. Each device owns one; nothing is shared between ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace plait {

struct ThreadPoolOptions {
  int num_threads = 1;  // the calling thread counts: num_threads - 1 workers are started
  // Workers spin this long for the next loop before they sleep. Set to 0 when there are more
  // threads than cores.
  double spin_us = 50;
};

// Runs one loop at a time; run() may only be called by one thread at a time (the device's stream).
class ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls body(thread_index) once on each of num_threads() threads and returns when all are done.
  // thread_index 0 is the caller. `body` must not throw.
  void run(const std::function<void(int)>& body);

  // Splits [0, count) into num_threads() contiguous ranges and calls body(begin, end) on each.
  // The split depends only on (count, grain, num_threads): results are reproducible.
  // Ranges are multiples of `grain` but for the last one. Small loops run on the caller alone.
  void parallel_for(int64_t count, int64_t grain,
                    const std::function<void(int64_t, int64_t)>& body);

 private:
  struct Team;
  int num_threads_;
  std::unique_ptr<Team> team_;
};

}  // namespace plait
