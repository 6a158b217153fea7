#include "parallel/pipeline/runner.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"

namespace plait {

PipelineRunner::PipelineRunner(const ParallelContext& context, const BoundaryShape& shape,
                               std::vector<Action> actions)
    : context_(context), shape_(shape), actions_(std::move(actions)) {
  for (const Action& action : actions_) {
    num_microbatches_ = std::max(num_microbatches_, action.microbatch + 1);
  }
  slots_.resize(static_cast<size_t>(num_microbatches_) * static_cast<size_t>(context.layout().vpp));
}

PipelineRunner::Slot& PipelineRunner::slot(const Action& action) {
  const int index = action.chunk * num_microbatches_ + action.microbatch;
  return slots_[static_cast<size_t>(index)];
}

Tensor PipelineRunner::receive(ProcessGroup& group, int peer) {
  Tensor tensor(context_.device(), {shape_.tokens, shape_.hidden}, shape_.dtype,
                MemoryCategory::kActivations);
  group.recv({.buffer = tensor.ptr(), .bytes = tensor.bytes(), .peer = peer});
  return tensor;
}

void PipelineRunner::send(ProcessGroup& group, int peer, Tensor tensor) {
  Work work =
      group.send({.buffer = tensor.ptr(), .bytes = tensor.bytes(), .peer = peer, .async = true});
  sent_.push_back({std::move(tensor), std::move(work)});
}

void PipelineRunner::record(const Action& action, double begin_s) {
  StepRecorder& recorder = context_.recorder();
  if (recorder.tracing()) {
    recorder.add_span(
        {.name = fmt::format("{} {}.{}", action_name(action.kind), action.chunk, action.microbatch),
         .lane = TraceLane::kCompute,
         .begin_s = begin_s,
         .end_s = now_s()});
  }
}

void PipelineRunner::drop_finished_sends() {
  std::erase_if(sent_, [](Sent& sent) { return sent.work.done(); });
}

void PipelineRunner::finish_sends() {
  for (Sent& sent : sent_) {
    sent.work.wait();
  }
  sent_.clear();
}

void PipelineRunner::execute(const Action& action, PipelineChunks& chunks, bool forward_only) {
  ProcessGroup& forward = context_.pp_forward();
  ProcessGroup& backward = context_.pp_backward();
  const int pp = forward.size();
  const int next = (forward.rank() + 1) % pp;
  const int previous = (forward.rank() + pp - 1) % pp;
  switch (action.kind) {
    case ActionKind::kRecvForward:
      slot(action).input = receive(forward, previous);
      break;
    case ActionKind::kForward: {
      const Tensor input = std::move(slot(action).input);
      slot(action).input = Tensor();
      const double start = now_s();
      slot(action).output = chunks.forward(action.chunk, action.microbatch, input);
      record(action, start);
      break;
    }
    case ActionKind::kSendForward:
      send(forward, next, std::move(slot(action).output));
      slot(action).output = Tensor();
      break;
    default:
      break;
  }
  if (forward_only) {
    return;
  }
  switch (action.kind) {
    case ActionKind::kRecvBackward:
      slot(action).grad_output = receive(backward, next);
      break;
    case ActionKind::kBackward: {
      const Tensor grad = std::move(slot(action).grad_output);
      slot(action).grad_output = Tensor();
      const bool last = action.microbatch == num_microbatches_ - 1;
      const double start = now_s();
      slot(action).grad_input = chunks.backward(action.chunk, action.microbatch, grad, last);
      record(action, start);
      break;
    }
    case ActionKind::kSendBackward:
      send(backward, previous, std::move(slot(action).grad_input));
      slot(action).grad_input = Tensor();
      break;
    case ActionKind::kReduce:
      chunks.reduce(action.chunk);
      break;
    default:
      break;
  }
}

void PipelineRunner::run(PipelineChunks& chunks) {
  for (const Action& action : actions_) {
    execute(action, chunks, false);
    drop_finished_sends();
  }
  finish_sends();
}

void PipelineRunner::run_forward(PipelineChunks& chunks) {
  for (const Action& action : actions_) {
    if (action.kind == ActionKind::kRecvForward || action.kind == ActionKind::kForward ||
        action.kind == ActionKind::kSendForward) {
      execute(action, chunks, true);
      drop_finished_sends();
    }
  }
  finish_sends();
}

}  // namespace plait
