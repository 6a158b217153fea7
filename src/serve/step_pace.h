// How long steps take on this machine, learned while they run, and how many rows of a prompt may
// therefore stand beside running streams. Times decide only how a prompt is cut, never a result.
#pragma once

#include <cstdint>

namespace plait {

class StepPace {
 public:
  struct Options {
    double max_gap_s = 0;  // aim for the longest step with running streams
    int64_t most_rows = 0;
  };
  explicit StepPace(const Options& options) : options_(options) {}

  struct Step {
    int64_t decode_rows = 0, prompt_rows = 0;
    double seconds = 0;
  };
  void record(const Step& step);
  // Rows for prompts in a step with running streams, which may last max_gap_s or four steps without
  // prompts, whichever is longer; and in one without streams, which is bounded too, so that a step
  // is no silence. At least kLeastRows.
  int64_t prompt_rows_beside() const;
  int64_t prompt_rows_alone() const;
  double seconds_per_prompt_row() const { return prompt_row_s_; }

  static constexpr int64_t kLeastRows = 8;

 private:
  int64_t rows_in(double seconds) const;

  Options options_;
  double decode_s_ = 0;      // a step without prompts, smoothed
  double prompt_row_s_ = 0;  // what a row of a prompt adds, smoothed
};

}  // namespace plait
