#include "comm/fault.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>

#include <fmt/format.h>

#include "base/file.h"
#include "base/json_full.h"

namespace plait {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): signal handlers read it.
std::atomic<bool> lost{false};
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers read it");

// Only calls that are async-signal-safe.
void on_sigterm(int) {
  const int errno_before = errno;
  if (!await_peer_lost()) {
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);  // takes effect when this handler returns
  }
  errno = errno_before;
}

void print_line(const std::string& text) noexcept {
  const std::string line = text + "\n";
  // One write, so that lines of several ranks do not mix.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

double unix_time_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

bool peer_lost() {
  return lost.load(std::memory_order_relaxed);
}

void set_peer_lost() {
  lost.store(true, std::memory_order_relaxed);
}

bool await_peer_lost() {
  // Below the second that mpirun leaves between SIGTERM and SIGKILL.
  constexpr int kGraceMs = 500;
  constexpr int kStepMs = 10;
  for (int waited_ms = 0; waited_ms < kGraceMs && !peer_lost(); waited_ms += kStepMs) {
    poll(nullptr, 0, kStepMs);
  }
  return peer_lost();
}

void hold_sigterm_for_report() {
  struct sigaction current {};
  if (sigaction(SIGTERM, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    struct sigaction held {};
    held.sa_handler = on_sigterm;
    held.sa_flags = SA_RESTART;
    sigemptyset(&held.sa_mask);
    sigaction(SIGTERM, &held, nullptr);
  }
}

std::string format_fault(const FaultReport& report) {
  return fmt::format(
      "plait: rank {} (host {}, pid {}) was lost: {}; it was {}; rank {} was {}. Exiting; start "
      "again (training: with --resume)",
      report.lost_rank, report.lost_host, report.lost_pid, report.how, report.lost_operation,
      report.rank, report.own_operation);
}

void report_fault(const FaultReport& report, const std::string& run_dir) noexcept {
  try {
    print_line(format_fault(report));
    if (run_dir.empty()) {
      return;
    }
    const Json json = {{"kind", "lost_rank"},
                       {"time_unix_s", unix_time_s()},
                       {"rank", report.rank},
                       {"pid", static_cast<int64_t>(getpid())},
                       {"operation", report.own_operation},
                       {"lost_rank", report.lost_rank},
                       {"lost_host", report.lost_host},
                       {"lost_pid", report.lost_pid},
                       {"how", report.how},
                       {"lost_operation", report.lost_operation}};
    // No time for fsync: mpirun kills the other ranks one second after the first is gone.
    write_file_atomic(fmt::format("{}/fault-rank{}.json", run_dir, report.rank),
                      dump_json(json, 2) + "\n", Durability::kProcess);
  } catch (const std::exception& e) {
    print_line(std::string("plait: the fault report was not written: ") + e.what());
  }
}

}  // namespace plait
