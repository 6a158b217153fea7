#include "checkpoint/background_task.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace plait {
namespace {

constexpr char kRunning = 'r';
constexpr char kDone = 'd';
constexpr char kFailed = 'f';

std::string encode(const BackgroundTask& task) {
  if (!task.done()) {
    return std::string(1, kRunning);
  }
  if (!task.error()) {
    return std::string(1, kDone);
  }
  const char code = static_cast<char>(task.error()->code());
  return std::string{kFailed, code} + task.error()->message();
}

}  // namespace

BackgroundTask::BackgroundTask(const std::string& thread_name, Body body)
    : thread_([this, thread_name, body = std::move(body)] {
        pthread_setname_np(pthread_self(), thread_name.substr(0, 15).c_str());
        run(body);
      }) {}

BackgroundTask::~BackgroundTask() {
  cancel();
  thread_.join();
}

void BackgroundTask::run(const Body& body) {
  try {
    body(cancelled_);
  } catch (const Error& error) {
    error_ = error;
  } catch (const std::bad_alloc&) {
    error_ = Error(ErrorCode::kResourceExhausted, "out of host memory; use fewer ranks a machine");
  } catch (const std::exception& error) {
    error_ = Error(ErrorCode::kIo, error.what());
  }
  done_ = true;
}

GroupStatus exchange_status(ProcessGroup& group, BackgroundTask& task) {
  const std::vector<std::string> all = group.gather_bytes(encode(task));
  GroupStatus status;
  status.all_done = true;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const char state = all[rank][0];
    status.all_done = status.all_done && state != kRunning;
    if (state != kFailed) {
      continue;
    }
    status.failed = true;
    const auto code = static_cast<ErrorCode>(all[rank][1]);
    // A rank that stopped because of another one's error has nothing to say.
    if (!status.error || status.error->code() == ErrorCode::kCancelled) {
      status.error = Error(code, fmt::format("rank {}: {}", rank, all[rank].substr(2)));
    }
  }
  if (status.failed) {
    task.cancel();
  }
  if (!status.all_done) {
    status.error.reset();
  }
  return status;
}

GroupStatus wait_together(ProcessGroup& group, BackgroundTask& task) {
  constexpr std::chrono::microseconds kPauseMax{20000};
  std::chrono::microseconds pause{100};
  for (;;) {
    GroupStatus status = exchange_status(group, task);
    if (status.all_done) {
      return status;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kPauseMax);
  }
}

void run_together(ProcessGroup& group, const std::string& what, const BackgroundTask::Body& body) {
  BackgroundTask task("checkpoint", body);
  const GroupStatus status = wait_together(group, task);
  if (status.error) {
    throw_error(status.error->code(), "{}: {}", what, status.error->message());
  }
}

void throw_if_cancelled(const std::atomic<bool>& cancelled) {
  if (cancelled) {
    throw_error(ErrorCode::kCancelled, "stopped because another rank failed");
  }
}

}  // namespace plait
