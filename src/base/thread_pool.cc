#include "base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cpu_relax.h"
#include "base/error.h"

namespace plait {
struct ThreadPool::Team {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable finished;
  std::atomic<uint64_t> generation{0};
  std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  const std::function<void(int)>* body = nullptr;
  double spin_s = 0;

  // Spins for spin_s, then sleeps on `condition` until `ready` holds.
  template <typename Ready>
  void await(std::condition_variable& condition, Ready ready) {
    if (spin_s > 0) {
      const double until = now_s() + spin_s;
      do {
        for (int i = 0; i < 64; ++i) {
          if (ready()) {
            return;
          }
          cpu_relax();
        }
      } while (now_s() < until);
    }
    std::unique_lock lock(mutex);
    condition.wait(lock, ready);
  }

  void work(int thread_index) {
    uint64_t seen = 0;
    for (;;) {
      await(wake, [&] { return stop.load() || generation.load() != seen; });
      if (stop.load()) {
        return;
      }
      seen = generation.load();
      (*body)(thread_index);
      if (running.fetch_sub(1) == 1) {
        const std::scoped_lock lock(mutex);
        finished.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(ThreadPoolOptions options)
    : num_threads_(options.num_threads), team_(std::make_unique<Team>()) {
  CHECK_GE(num_threads_, 1);
  team_->spin_s = options.spin_us * 1e-6;
  for (int i = 1; i < num_threads_; ++i) {
    team_->workers.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), "plait-pool");
      team_->work(i);
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::scoped_lock lock(team_->mutex);
    team_->stop = true;
  }
  team_->wake.notify_all();
  for (std::thread& worker : team_->workers) {
    worker.join();
  }
}

void ThreadPool::run(const std::function<void(int)>& body) {
  if (num_threads_ == 1) {
    body(0);
    return;
  }
  {
    const std::scoped_lock lock(team_->mutex);
    team_->body = &body;
    team_->running = num_threads_ - 1;
    team_->generation.fetch_add(1);
  }
  team_->wake.notify_all();
  body(0);
  team_->await(team_->finished, [&] { return team_->running.load() == 0; });
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  CHECK_GE(grain, 1);
  const int64_t units = (count + grain - 1) / grain;
  if (units <= 1 || num_threads_ == 1) {
    if (count > 0) {
      body(0, count);
    }
    return;
  }
  const int64_t threads = std::min<int64_t>(num_threads_, units);
  run([&](int thread_index) {
    if (thread_index >= threads) {
      return;
    }
    const int64_t begin = units * thread_index / threads * grain;
    const int64_t end = std::min(count, units * (thread_index + 1) / threads * grain);
    if (begin < end) {
      body(begin, end);
    }
  });
}

}  // namespace plait
