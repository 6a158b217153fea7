// How many requests may run at a time when the user has set a latency target: additive increase,
// multiplicative decrease on what is measured (Chiu & Jain 1989). Without a target the limit is
// fixed. Pure logic; time is passed in.
#pragma once

#include <cstdint>

namespace plait {

class AdmissionControl {
 public:
  struct Options {
    int64_t most = 0;
    double target_ttft_s = 0;  // from the first step of a request to its first token; 0: none
    double target_tpot_s = 0;  // between two tokens of a request; 0: none
  };
  explicit AdmissionControl(const Options& options);

  void record_first_token(double seconds);
  void record_step_of_decodes(double seconds);
  // After a step: `running` requests were in it. Adapts the limit once a window.
  void update(double now_s, int64_t running);
  int64_t limit() const { return limit_; }

 private:
  struct Mean {
    double sum = 0;
    int64_t count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
    // Whether the mean is known and above a target.
    bool above(double target) const {
      return target > 0 && count > 0 && sum / static_cast<double>(count) > target;
    }
  };

  Options options_;
  int64_t limit_;
  Mean ttft_, tpot_;
  bool was_full_ = false;
  double window_begin_s_ = 0;
};

}  // namespace plait
