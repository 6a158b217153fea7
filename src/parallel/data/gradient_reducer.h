// Sums the gradients of one step over the ranks that share parameters: partial gradients over tp,
// the tied embedding over the first and last stage, then every bucket over dp: all_reduce, or
// reduce_scatter under ZeRO-1 (Rajbhandari et al. 2020). Buckets start as soon as backward has
// completed them and travel while it computes on.
//
// Per step each rank sends 2 (d-1)/d (all_reduce) or (d-1)/d (reduce_scatter) of its gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"

namespace plait {

class GradientReducer {
 public:
  struct Options {
    bool scatter = false;  // ZeRO-1: each dp rank receives its part of every bucket
    bool overlap = true;   // start buckets during backward
  };

  // Both must outlive the reducer.
  GradientReducer(ParameterStore& store, const ParallelContext& context, Options options);

  // Forgets the previous step. A bucket is reduced once all its gradients are written.
  void begin_step();

  // Backward of `chunk` will add nothing more to units >= `unit` (see Bucket::ready_after). Called
  // during the last backward of the chunk only, in falling order of units. Starts buckets.
  void unit_complete(int chunk, int64_t unit);

  // All gradients of `chunk` are complete but for tied ones. Collective over tp; starts buckets.
  void chunk_complete(int chunk);

  // All chunks are complete: reduces tied gradients and waits for everything. Collective over dp
  // and embedding.
  void finish();

 private:
  void start(size_t bucket_index);

  ParameterStore& store_;
  const ParallelContext& context_;
  Options options_;
  std::vector<bool> started_;
  std::vector<Work> pending_;
};

}  // namespace plait
