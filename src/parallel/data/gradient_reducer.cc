#include "parallel/data/gradient_reducer.h"

namespace plait {

GradientReducer::GradientReducer(ParameterStore& store, const ParallelContext& context,
                                 Options options)
    : store_(store), context_(context), options_(options) {}

void GradientReducer::begin_step() {
  started_.assign(store_.flat().buckets.size(), false);
  pending_.clear();
}

void GradientReducer::start(size_t bucket_index) {
  started_[bucket_index] = true;
  ProcessGroup& dp = context_.dp();
  if (dp.size() == 1) {
    return;
  }
  const Bucket& bucket = store_.flat().buckets[bucket_index];
  const int64_t element = dtype_size(DType::kF32);
  const DevicePtr begin = store_.grads().ptr() + bucket.begin * element;
  const int64_t count = bucket.end - bucket.begin;
  if (options_.scatter) {
    const int64_t part = count / dp.size();
    pending_.push_back(dp.reduce_scatter({.input = begin,
                                          .output = begin + dp.rank() * part * element,
                                          .count = part,
                                          .async = options_.overlap}));
  } else {
    pending_.push_back(dp.all_reduce({.buffer = begin, .count = count, .async = options_.overlap}));
  }
}

void GradientReducer::unit_complete(int chunk, int64_t unit) {
  if (!options_.overlap) {
    return;
  }
  const std::vector<Bucket>& buckets = store_.flat().buckets;
  for (size_t i = buckets.size(); i-- > 0;) {
    const Bucket& bucket = buckets[i];
    // Unit -1 waits for chunk_complete: partial gradients are summed there.
    if (bucket.chunk == chunk && !bucket.tied && !started_[i] && bucket.ready_after >= unit &&
        bucket.ready_after >= 0) {
      start(i);
    }
  }
}

void GradientReducer::chunk_complete(int chunk) {
  for (const PartialRange& range : store_.flat().partial_ranges) {
    if (range.chunk == chunk) {
      context_.tp().all_reduce(
          {.buffer = store_.grads().ptr() + range.begin * dtype_size(DType::kF32),
           .count = range.end - range.begin});
    }
  }
  const std::vector<Bucket>& buckets = store_.flat().buckets;
  for (size_t i = buckets.size(); i-- > 0;) {
    if (buckets[i].chunk == chunk && !buckets[i].tied && !started_[i]) {
      start(i);
    }
  }
}

void GradientReducer::finish() {
  const std::vector<Bucket>& buckets = store_.flat().buckets;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].tied) {
      context_.embedding().all_reduce(
          {.buffer = store_.grads().ptr() + buckets[i].begin * dtype_size(DType::kF32),
           .count = buckets[i].end - buckets[i].begin});
      start(i);
    }
  }
  for (Work& work : pending_) {
    work.wait();
  }
  pending_.clear();
}

}  // namespace plait
