#include "base/error.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace plait {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): process-wide by nature.
std::atomic<CheckHook> check_hook{nullptr};

}  // namespace

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotImplemented:
      return "not_implemented";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kCorruptData:
      return "corrupt_data";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kComm:
      return "comm";
    case ErrorCode::kNonFinite:
      return "non_finite";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotImplemented:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorruptData:
      return 2;
    case ErrorCode::kNonFinite:
      return 1;
    default:
      return 3;
  }
}

void set_check_hook(CheckHook hook) {
  check_hook = hook;
}

namespace internal {

void check_failed(const char* file, int line, const std::string& what) {
  const std::string message = fmt::format("{}:{}: check failed: {}", file, line, what);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
  if (CheckHook hook = check_hook.load()) {
    hook(message);
  }
  std::abort();
}

}  // namespace internal
}  // namespace plait
