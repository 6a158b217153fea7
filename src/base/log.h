// The log: one line per event on stderr; stdout is for results only.
//   I 12:00:01.234 rank=3 message
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace plait {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped. Default kInfo.
void set_log_level(LogLevel level);

// Writes one line, atomically. `rank` < 0 leaves the rank out. Thread-safe.
void log_line(LogLevel level, int rank, const std::string& message);

template <typename... Args>
void log_info(int rank, fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, rank, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(int rank, fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, rank, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(int rank, fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, rank, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace plait
