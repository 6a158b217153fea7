// Executes a pipeline schedule on one stage: moves activations and gradients between stages and
// calls the model's chunks in the order that the schedule lists.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/parallel_context.h"
#include "spec/schedule.h"
#include "tensor/tensor.h"

namespace plait {

// What a stage computes. A chunk is one virtual stage.
class PipelineChunks {
 public:
  virtual ~PipelineChunks() = default;
  // Input from the previous virtual stage (empty on the first); output for the next (empty on the
  // last, which computes the loss).
  virtual Tensor forward(int chunk, int microbatch, const Tensor& input) = 0;
  // Gradient of the chunk's output (empty on the last virtual stage); returns that of its input
  // (empty on the first). `last` is true for the chunk's last micro-batch: its gradients become
  // complete.
  virtual Tensor backward(int chunk, int microbatch, const Tensor& grad_output, bool last) = 0;
  // All gradients of the chunk are complete.
  virtual void reduce(int chunk) = 0;
};

// Shape of what travels between stages.
struct BoundaryShape {
  int64_t tokens = 0;
  int64_t hidden = 0;
  DType dtype = DType::kF32;
};

class PipelineRunner {
 public:
  // `actions` is this stage's list of make_schedule.
  PipelineRunner(const ParallelContext& context, const BoundaryShape& shape,
                 std::vector<Action> actions);

  // Runs one step. Collective over the pipeline.
  void run(PipelineChunks& chunks);

  // Runs the forward half of the schedule only (evaluation).
  void run_forward(PipelineChunks& chunks);

 private:
  struct Sent {
    Tensor tensor;
    Work work;
  };
  struct Slot {
    Tensor input;        // received or produced, until forward has used it
    Tensor output;       // until sent
    Tensor grad_output;  // until backward has used it
    Tensor grad_input;   // until sent
  };
  void execute(const Action& action, PipelineChunks& chunks, bool forward_only);
  Tensor receive(ProcessGroup& group, int peer);
  void send(ProcessGroup& group, int peer, Tensor tensor);
  void drop_finished_sends();
  void finish_sends();
  void record(const Action& action, double begin_s);
  Slot& slot(const Action& action);

  const ParallelContext& context_;
  BoundaryShape shape_;
  std::vector<Action> actions_;
  int num_microbatches_ = 0;
  std::vector<Slot> slots_;
  std::vector<Sent> sent_;
};

}  // namespace plait
