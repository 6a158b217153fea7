#include "device/guard/guard_stream.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/rng.h"

namespace plait::guard {
namespace {

constexpr size_t kMaxTasks = 256;
constexpr int64_t kMaxStagedBytes = int64_t{64} << 20;

int64_t delay_from_environment() {
  const char* text = std::getenv("PLAIT_GUARD_DELAY_US");
  return text == nullptr ? 0 : std::atoll(text);
}

}  // namespace

struct GuardStream::Core {
  struct Task {
    std::function<void()> run;
    int64_t staged_bytes = 0;
  };

  std::mutex mutex;
  std::condition_variable has_work;
  std::condition_variable progress;  // a task was taken or has finished
  std::deque<Task> tasks;
  int64_t staged_bytes = 0;
  int64_t num_queued = 0;
  int64_t num_finished = 0;
  bool stop = false;
  std::exception_ptr error;
  std::thread worker;

  void work(int64_t delay_us) {
    std::unique_lock lock(mutex);
    for (;;) {
      has_work.wait(lock, [&] { return stop || !tasks.empty(); });
      if (tasks.empty()) {
        return;
      }
      Task task = std::move(tasks.front());
      tasks.pop_front();
      progress.notify_all();
      const bool dropped = error != nullptr;
      const auto index = static_cast<uint64_t>(num_finished);
      lock.unlock();
      if (delay_us > 0) {
        const auto delay = static_cast<int64_t>(random_bits(0, 0, index) >> 1) % delay_us;
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
      }
      std::exception_ptr thrown;
      if (!dropped) {
        try {
          task.run();
        } catch (...) {
          thrown = std::current_exception();
        }
      }
      task.run = nullptr;  // what the task owns goes before its event passes
      lock.lock();
      if (thrown != nullptr) {
        error = thrown;
      }
      staged_bytes -= task.staged_bytes;
      ++num_finished;
      progress.notify_all();
    }
  }

  void await(int64_t index) {
    std::unique_lock lock(mutex);
    progress.wait(lock, [&] { return num_finished >= index; });
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
};

class GuardStream::Point final : public Event::State {
 public:
  Point(std::shared_ptr<Core> core, int64_t index) : core_(std::move(core)), index_(index) {}

  bool done() const override {
    const std::scoped_lock lock(core_->mutex);
    return core_->num_finished >= index_;
  }
  void wait() override { core_->await(index_); }

 private:
  std::shared_ptr<Core> core_;
  int64_t index_;
};

GuardStream::GuardStream(const GuardMemory& memory)
    : memory_(memory), core_(std::make_shared<Core>()) {
  core_->worker = std::thread([core = core_.get(), delay_us = delay_from_environment()] {
    pthread_setname_np(pthread_self(), "plait-guard");
    core->work(delay_us);
  });
}

GuardStream::~GuardStream() {
  {
    const std::scoped_lock lock(core_->mutex);
    core_->stop = true;
  }
  core_->has_work.notify_one();
  core_->worker.join();
}

void GuardStream::enqueue(std::function<void()> task, int64_t staged_bytes) {
  std::unique_lock lock(core_->mutex);
  core_->progress.wait(lock, [&] {
    return core_->tasks.size() < kMaxTasks &&
           (core_->staged_bytes == 0 || core_->staged_bytes + staged_bytes <= kMaxStagedBytes);
  });
  core_->tasks.push_back({std::move(task), staged_bytes});
  core_->staged_bytes += staged_bytes;
  ++core_->num_queued;
  core_->has_work.notify_one();
}

void GuardStream::copy_to_device(DevicePtr destination, const void* source, int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(source);
  enqueue(
      [to = memory_.translate(destination), staged = std::vector<std::byte>(begin, begin + bytes)] {
        if (!staged.empty()) {
          std::memcpy(to.as<void>(), staged.data(), staged.size());
        }
      },
      bytes);
}

void GuardStream::copy_to_host(void* destination, DevicePtr source, int64_t bytes) {
  enqueue([destination, from = memory_.translate(source), bytes] {
    if (bytes > 0) {  // memcpy takes no null, not even for no bytes
      std::memcpy(destination, from.as<void>(), static_cast<size_t>(bytes));
    }
  });
}

void GuardStream::copy(DevicePtr destination, DevicePtr source, int64_t bytes) {
  enqueue([to = memory_.translate(destination), from = memory_.translate(source), bytes] {
    if (bytes > 0) {
      std::memcpy(to.as<void>(), from.as<void>(), static_cast<size_t>(bytes));
    }
  });
}

void GuardStream::zero(DevicePtr destination, int64_t bytes) {
  fill(destination, 0, bytes);
}

void GuardStream::fill(DevicePtr destination, int byte, int64_t bytes) {
  enqueue([to = memory_.translate(destination), byte, bytes] {
    if (bytes > 0) {
      std::memset(to.as<void>(), byte, static_cast<size_t>(bytes));
    }
  });
}

Event GuardStream::record() {
  const std::scoped_lock lock(core_->mutex);
  return Event(std::make_shared<Point>(core_, core_->num_queued));
}

void GuardStream::wait(const Event& event) {
  enqueue([event] { event.wait(); });
}

void GuardStream::synchronize() {
  record().wait();
}

}  // namespace plait::guard
