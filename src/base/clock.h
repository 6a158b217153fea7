// Monotonic time in seconds and deadlines.
#pragma once

#include <chrono>

namespace plait {

// Seconds since an arbitrary start; never goes back.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A point in time after which a wait gives up.
class Deadline {
 public:
  static Deadline after_s(double seconds) { return Deadline(now_s(), seconds); }
  double limit_s() const { return limit_s_; }
  double elapsed_s() const { return now_s() - start_s_; }
  double left_s() const { return limit_s_ - elapsed_s(); }
  bool passed() const { return left_s() <= 0; }

 private:
  Deadline(double start_s, double limit_s) : start_s_(start_s), limit_s_(limit_s) {}
  double start_s_;
  double limit_s_;
};

}  // namespace plait
