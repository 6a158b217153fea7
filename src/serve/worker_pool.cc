#include "serve/worker_pool.h"

#include <utility>

namespace plait {

WorkerPool::WorkerPool(const Options& options) : most_waiting_(options.most_waiting) {
  for (int i = 0; i < options.num_threads; ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

void WorkerPool::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
  queue_.clear();
}

bool WorkerPool::submit(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_ || static_cast<int64_t>(queue_.size()) >= most_waiting_) {
      return false;
    }
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) {
      return;
    }
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before the lock is taken
    lock.lock();
  }
}

}  // namespace plait
