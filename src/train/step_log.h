// What a run shows: a progress bar, a line of metrics per step, a trace and a summary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/memory_ledger.h"
#include "parallel/step_recorder.h"
#include "train/train_config.h"

namespace plait {

// One rank's part of a step, as exchanged between ranks.
struct RankStep {
  double total_s = 0;
  double tensor_wait_s = 0, data_wait_s = 0, pipeline_wait_s = 0, control_wait_s = 0;
  double optimizer_s = 0;
  int stop_signal = 0;  // a signal that asks to stop, or 0

  double exposed_comm_s() const { return tensor_wait_s + data_wait_s; }
  double compute_s() const {
    return total_s - tensor_wait_s - data_wait_s - pipeline_wait_s - control_wait_s - optimizer_s;
  }
};

struct StepRecord {
  int64_t step = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t tokens = 0;  // of the global batch, padding and masked ones included
  double time_s = 0;   // of the slowest rank
  double mfu = 0;      // model FLOP/s over the measured GEMM peak of all ranks; 0: not measured
  // Means over ranks.
  double compute_s = 0, exposed_comm_s = 0, bubble_s = 0, control_s = 0, optimizer_s = 0;
  int slowest_rank = -1;      // -1: nobody stands out
  double slowest_factor = 1;  // its compute time over the median of the ranks of its stage
  double val_loss = -1;       // < 0: no validation after this step
  double loss_scale = 0;      // fp16; 0: none
  bool overflow = false;      // fp16: the step was skipped

  double tokens_per_s() const { return static_cast<double>(tokens) / time_s; }
};

// Adds up what the ranks sent. A rank stands out when its compute time is 1.25 times the median of
// the ranks of its pipeline stage, or more.
StepRecord summarise_step(const std::vector<RankStep>& ranks, const Layout& layout);

// One JSON object and a newline.
std::string metrics_line(const StepRecord& record);

// The lines of a metrics file for the steps up to `last_step`: what stays when a run goes on from
// there. A line that was cut short is dropped.
std::string metrics_until(const std::string& text, int64_t last_step);

// Progress on stderr: a bar that is redrawn on a terminal, a line now and then elsewhere.
class ProgressBar {
 public:
  ProgressBar(int64_t steps, int64_t first_step);
  void show(const StepRecord& record);
  void finish();

 private:
  int64_t steps_;
  int64_t first_step_;
  bool terminal_;
  double start_s_;
  double last_shown_s_ = 0;
};

struct TrainSummary {
  std::string layout;
  int world_size = 1;
  int threads_per_rank = 1;
  int64_t first_step = 0;  // after which the run began
  int64_t last_step = 0;
  bool stopped = false;  // by a signal
  double first_loss = 0, last_loss = 0;
  double val_loss = -1;
  double tokens_per_s = 0;  // over all steps but the first
  double mfu = 0, gemm_peak_flops = 0;
  double compute_s = 0, exposed_comm_s = 0, bubble_s = 0, control_s = 0, optimizer_s = 0;
  std::vector<MemoryLedger::Totals> memory;  // by rank
  std::string checkpoint, metrics, trace;
};
// One screen.
std::string format_summary(const TrainSummary& summary);
std::string summary_json(const TrainSummary& summary);

// Chrome trace (Perfetto reads it): one process a rank, its lanes as threads.
std::string chrome_trace(const std::vector<std::vector<TraceSpan>>& spans_by_rank);

// For the exchange between ranks.
std::string encode_spans(const std::vector<TraceSpan>& spans);
std::vector<TraceSpan> decode_spans(const std::string& bytes);

}  // namespace plait
