#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <ctime>

namespace plait {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): one log a process.
std::atomic<LogLevel> min_level{LogLevel::kInfo};

}  // namespace

void set_log_level(LogLevel level) {
  min_level = level;
}

void log_line(LogLevel level, int rank, const std::string& message) {
  if (level < min_level.load()) {
    return;
  }
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  const char letter = "DIWE"[static_cast<int>(level)];
  std::string line = fmt::format("{} {:02}:{:02}:{:02}.{:03} ", letter, local.tm_hour, local.tm_min,
                                 local.tm_sec, now.tv_nsec / 1000000);
  if (rank >= 0) {
    line += fmt::format("rank={} ", rank);
  }
  line += message;
  line += '\n';
  // One write per line keeps lines of many ranks whole.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace plait
