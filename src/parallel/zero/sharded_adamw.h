// AdamW over the flat parameters of one rank; under ZeRO-1 each dp rank keeps and updates its part
// of every bucket and the updated weights are gathered while the next forward starts.
//
// Bytes a parameter (Megatron's accounting, docs/parallelism.md): f32 4 weights + 4 gradients + 8/D
// moments; bf16 2 + 4 + 12/D with the f32 master; D = dp under ZeRO-1, else 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"

namespace plait {

struct AdamwConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // on parameters with two or more dims
};

// A run of elements that this rank updates.
struct OwnedRange {
  int64_t flat_begin = 0;   // in the flat buffers
  int64_t shard_begin = 0;  // in this rank's optimizer state
  int64_t count = 0;
};

class ShardedAdamw {
 public:
  // Allocates the states, zero. `sharded`: ZeRO-1. Store and context must outlive it.
  ShardedAdamw(ParameterStore& store, const ParallelContext& context, const AdamwConfig& config,
               bool sharded);

  // Sets weights (and masters) from a flat f32 image of all parameters of this rank.
  void set_weights(std::span<const float> image);

  // L2 norm over all parameters of the model, each counted once; the same bits on every rank.
  // Requires finished reductions. Collective over the world.
  double global_grad_norm();

  struct Step {
    double lr = 0;
    double grad_scale = 1;  // clipping
    int64_t step = 1;       // from 1
  };
  // Updates this rank's part and starts gathering the weights. Collective over dp.
  void step(const Step& options);

  // Waits until the weights of `unit` (see Bucket::ready_after; -1: embedding and norms) of `chunk`
  // are there. Cheap when they are.
  void wait_unit(int chunk, int64_t unit);
  void wait_all();

  // Ranges of this rank in shard order; masters, moments are [shard_count] f32. In f32 training
  // without an own master the weights themselves are the master.
  const std::vector<OwnedRange>& owned() const { return owned_; }
  bool sharded() const { return sharded_; }
  Tensor& exp_avg() { return exp_avg_; }
  Tensor& exp_avg_sq() { return exp_avg_sq_; }
  // Master values of one owned range, f32.
  Tensor master(const OwnedRange& range) const;

 private:
  // Part of an owned range with one treatment.
  struct Segment {
    OwnedRange range;
    bool weight_decay = false;
    float norm_weight = 1;  // 0: counted by another rank
  };
  void build_segments();
  void gather();

  ParameterStore& store_;
  const ParallelContext& context_;
  AdamwConfig config_;
  bool sharded_;
  std::vector<OwnedRange> owned_;
  std::vector<Segment> segments_;
  Tensor exp_avg_, exp_avg_sq_;
  Tensor master_;              // empty in f32
  std::vector<Work> gathers_;  // per bucket, done ones default
};

}  // namespace plait
