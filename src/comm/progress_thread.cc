#include "comm/progress_thread.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace plait {
namespace {

constexpr size_t kMaxQueued = 65536;

}  // namespace

struct ProgressThread::Task {
  std::function<void()> body;
  bool done = false;
  std::exception_ptr error;
  Work::Interval interval;
};

struct ProgressThread::Shared {
  ProgressOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Task>> queue;
  uint64_t finished = 0;
  bool stop = false;
  std::exception_ptr first_error;
  std::atomic<int> pending{0};

  std::shared_ptr<Task> push(std::function<void()> body) {
    auto task = std::make_shared<Task>();
    task->body = std::move(body);
    {
      const std::scoped_lock lock(mutex);
      if (queue.size() >= kMaxQueued) {
        throw_error(ErrorCode::kResourceExhausted,
                    "{}: {} asynchronous operations are queued already; wait for some of them",
                    options.label, kMaxQueued);
      }
      queue.push_back(task);
      pending.fetch_add(1, std::memory_order_relaxed);
    }
    changed.notify_all();
    return task;
  }

  // Waits until `task` has ended, as long as operations keep finishing.
  void await(std::unique_lock<std::mutex>& lock, const Task& task) {
    const auto limit = std::chrono::duration<double>(2 * options.deadline_s + 1);
    while (!task.done) {
      const uint64_t seen = finished;
      if (!changed.wait_for(lock, limit, [&] { return task.done || finished != seen; })) {
        throw_error(ErrorCode::kComm,
                    "{}: no asynchronous operation has finished for {:.1f} s (limit {:.1f} s an "
                    "operation); the device's queued work may be stuck",
                    options.label, limit.count(), options.deadline_s);
      }
    }
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) {
        return;
      }
      const std::shared_ptr<Task> task = queue.front();
      std::exception_ptr error = first_error;
      if (error == nullptr) {
        lock.unlock();
        task->interval.begin_s = now_s();
        try {
          task->body();
        } catch (...) {
          error = std::current_exception();
        }
        task->interval.end_s = now_s();
        lock.lock();
      }
      queue.pop_front();
      task->error = error;
      task->done = true;
      task->body = nullptr;
      if (first_error == nullptr) {
        first_error = error;
      }
      ++finished;
      pending.fetch_sub(1, std::memory_order_release);
      changed.notify_all();
    }
  }
};

class ProgressThread::TaskWork final : public Work::State {
 public:
  TaskWork(std::shared_ptr<Shared> shared, std::shared_ptr<Task> task)
      : shared_(std::move(shared)), task_(std::move(task)) {}

  ~TaskWork() override {
    std::unique_lock lock(shared_->mutex);
    if (task_->done) {
      return;
    }
    if (std::uncaught_exceptions() > 0) {
      lock.unlock();
      shared_->options.cancel();
      lock.lock();
    }
    shared_->changed.wait(lock, [&] { return task_->done; });
  }

  bool done() override {
    const std::scoped_lock lock(shared_->mutex);
    return task_->done;
  }

  Work::Interval interval() override {
    const std::scoped_lock lock(shared_->mutex);
    return task_->interval;
  }

  void wait() override {
    std::unique_lock lock(shared_->mutex);
    shared_->await(lock, *task_);
    if (task_->error != nullptr) {
      std::rethrow_exception(task_->error);
    }
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Task> task_;
};

ProgressThread::ProgressThread(ProgressOptions options)
    : shared_(std::make_shared<Shared>()), pending_(&shared_->pending) {
  shared_->options = std::move(options);
  thread_ = std::thread([shared = shared_] {
    pthread_setname_np(pthread_self(), shared->options.thread_name.substr(0, 15).c_str());
    shared->run();
  });
}

ProgressThread::~ProgressThread() {
  if (std::uncaught_exceptions() > 0) {
    shared_->options.cancel();
  }
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  thread_.join();
}

Work ProgressThread::submit(std::function<void()> body) {
  return Work(std::make_shared<TaskWork>(shared_, shared_->push(std::move(body))));
}

void ProgressThread::submit_detached(std::function<void()> body) {
  shared_->push(std::move(body));
}

void ProgressThread::drain() {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->queue.empty()) {
    const std::shared_ptr<Task> last = shared_->queue.back();
    shared_->await(lock, *last);
  }
  if (shared_->first_error != nullptr) {
    std::rethrow_exception(shared_->first_error);
  }
}

}  // namespace plait
