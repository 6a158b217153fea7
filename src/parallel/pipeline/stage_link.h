// The edges of a pipeline stage in inference: hidden states come from the stage before, go to the
// one behind; at the ends of the pipeline the calls do nothing.
#pragma once

#include "parallel/parallel_context.h"

namespace plait {

class StageLink {
 public:
  explicit StageLink(const ParallelContext& context)
      : forward_(context.pp_forward()), backward_(context.pp_backward()) {}

  bool first() const { return forward_.rank() == 0; }
  bool last() const { return forward_.rank() == forward_.size() - 1; }

  // Blocks until the bytes are there. Every stage calls both with the same size.
  void receive(DevicePtr buffer, int64_t bytes) const {
    if (!first()) {
      forward_.recv({.buffer = buffer, .bytes = bytes, .peer = forward_.rank() - 1}).wait();
    }
  }
  void send(DevicePtr buffer, int64_t bytes) const {
    if (!last()) {
      forward_.send({.buffer = buffer, .bytes = bytes, .peer = forward_.rank() + 1}).wait();
    }
  }
  // From the last stage to the first; those between may call it too.
  void bring_back(DevicePtr buffer, int64_t bytes) const {
    if (last() && !first()) {
      backward_.send({.buffer = buffer, .bytes = bytes, .peer = 0}).wait();
    } else if (first() && !last()) {
      backward_.recv({.buffer = buffer, .bytes = bytes, .peer = backward_.size() - 1}).wait();
    }
  }

 private:
  ProcessGroup& forward_;
  ProcessGroup& backward_;
};

}  // namespace plait
