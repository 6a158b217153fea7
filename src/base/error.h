// Errors. Three kinds, three tools (docs/errors.md):
// - a bug (broken invariant): CHECK / CHECK_EQ ..., always on, prints both values and aborts;
// - a failed operation (bad config, lost peer, full disk): throw Error;
// - an expected alternative: return optional or a struct with the reason.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace plait {

// What went wrong, coarse enough to choose an exit code from.
enum class ErrorCode {
  kInvalidArgument,    // a flag, key or value that cannot work; exit code 2
  kNotImplemented,     // valid, but not here; exit code 2
  kNotFound,           // a file or name that does not exist; exit code 2
  kCorruptData,        // a file whose bytes are wrong; exit code 2
  kResourceExhausted,  // memory, disk or file descriptors; exit code 3
  kIo,                 // a read or write failed; exit code 3
  kUnavailable,        // the environment lacks something (MPI, rights, device); exit code 3
  kComm,               // a peer was lost or a collective timed out; exit code 3
  kNonFinite,          // NaN or Inf in loss or gradients; exit code 1
  kCancelled,          // asked to stop (Ctrl-C, SIGTERM, another rank failed first); exit code 3
};

// "invalid_argument" ...; stable names, used in --json.
const char* error_code_name(ErrorCode code);

// 1: it ran and the answer is no; 2: bad usage, config or input; 3: environment.
int exit_code(ErrorCode code);

// The one exception class. `message` is a full sentence for the user: what was read, what is
// allowed, what to try.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
};

// throw_error(ErrorCode::kIo, "cannot read {}: {}", path, reason)
template <typename... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const std::string& what);
}  // namespace internal

// Called with the message before a failed CHECK aborts. A transport sets it so that a broken rank
// takes its peers down with it instead of leaving them waiting. Process-wide by nature.
using CheckHook = void (*)(const std::string& message);
void set_check_hook(CheckHook hook);

}  // namespace plait

// The condition's text is an argument, never part of the format: it may hold braces.
#define PLAIT_CHECK_MSG(condition, ...)                                                         \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      ::plait::internal::check_failed(__FILE__, __LINE__,                                       \
                                      std::string(#condition ": ") + fmt::format(__VA_ARGS__)); \
    }                                                                                           \
  } while (false)
#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      ::plait::internal::check_failed(__FILE__, __LINE__, #condition); \
    }                                                                  \
  } while (false)
#define PLAIT_CHECK_OP(a, op, b)                                                          \
  do {                                                                                    \
    const auto& plait_check_a = (a);                                                      \
    const auto& plait_check_b = (b);                                                      \
    if (!(plait_check_a op plait_check_b)) {                                              \
      ::plait::internal::check_failed(                                                    \
          __FILE__, __LINE__,                                                             \
          fmt::format("{} ({} vs {})", #a " " #op " " #b, plait_check_a, plait_check_b)); \
    }                                                                                     \
  } while (false)
#define CHECK_EQ(a, b) PLAIT_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) PLAIT_CHECK_OP(a, !=, b)
#define CHECK_LE(a, b) PLAIT_CHECK_OP(a, <=, b)
#define CHECK_LT(a, b) PLAIT_CHECK_OP(a, <, b)
#define CHECK_GE(a, b) PLAIT_CHECK_OP(a, >=, b)
#define CHECK_GT(a, b) PLAIT_CHECK_OP(a, >, b)
