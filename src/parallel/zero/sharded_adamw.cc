#include "parallel/zero/sharded_adamw.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plait {

ShardedAdamw::ShardedAdamw(ParameterStore& store, const ParallelContext& context,
                           const AdamwConfig& config, bool sharded)
    : store_(store), context_(context), config_(config), sharded_(sharded) {
  int64_t shard_count = 0;
  for (const Bucket& bucket : store.flat().buckets) {
    const int64_t parts = sharded ? context.dp().size() : 1;
    const int64_t count = (bucket.end - bucket.begin) / parts;
    const int64_t first = bucket.begin + (sharded ? context.dp().rank() * count : 0);
    owned_.push_back({.flat_begin = first, .shard_begin = shard_count, .count = count});
    shard_count += count;
  }
  Device& device = store.device();
  exp_avg_ = Tensor(device, {shard_count}, DType::kF32, MemoryCategory::kOptimizer);
  exp_avg_sq_ = Tensor(device, {shard_count}, DType::kF32, MemoryCategory::kOptimizer);
  device.stream().zero(exp_avg_.ptr(), exp_avg_.bytes());
  device.stream().zero(exp_avg_sq_.ptr(), exp_avg_sq_.bytes());
  if (store.weights().dtype() != DType::kF32) {
    master_ = Tensor(device, {shard_count}, DType::kF32, MemoryCategory::kOptimizer);
  }
  gathers_.resize(store.flat().buckets.size());
  build_segments();
}

void ShardedAdamw::build_segments() {
  std::vector<LocalParam> params = store_.flat().params;
  std::ranges::sort(params, {}, &LocalParam::offset);
  const bool counts_here = sharded_ || context_.dp().rank() == 0;
  for (const OwnedRange& owned : owned_) {
    for (const LocalParam& param : params) {
      const int64_t begin = std::max(owned.flat_begin, param.offset);
      const int64_t end =
          std::min(owned.flat_begin + owned.count, param.offset + param.shard.count());
      if (begin >= end) {
        continue;
      }
      const ParamSpec& spec = store_.table()[static_cast<size_t>(param.spec_index)];
      const bool counted = counts_here && !param.tied_copy &&
                           (spec.placement != Placement::kReplicated || context_.tp().rank() == 0);
      Segment segment{{begin, owned.shard_begin + begin - owned.flat_begin, end - begin},
                      spec.weight_decay,
                      counted ? 1.0F : 0.0F};
      if (!segments_.empty()) {
        Segment& last = segments_.back();
        const bool adjacent =
            last.range.flat_begin + last.range.count == begin &&
            last.range.shard_begin + last.range.count == segment.range.shard_begin;
        if (adjacent && last.weight_decay == segment.weight_decay &&
            last.norm_weight == segment.norm_weight) {
          last.range.count += segment.range.count;
          continue;
        }
      }
      segments_.push_back(segment);
    }
  }
}

void ShardedAdamw::set_weights(std::span<const float> image) {
  CHECK_EQ(static_cast<int64_t>(image.size()), store_.flat().count);
  Device& device = store_.device();
  Stream& stream = device.stream();
  wait_all();
  Tensor& weights = store_.weights();
  if (!master_) {
    stream.copy_to_device(weights.ptr(), image.data(), weights.bytes());
    return;
  }
  // In pieces, so that the staging copy stays small beside the model.
  constexpr int64_t kPiece = 1 << 20;
  Tensor piece(device, {kPiece}, DType::kF32, MemoryCategory::kWorkspace);
  for (int64_t begin = 0; begin < store_.flat().count; begin += kPiece) {
    const int64_t count = std::min(kPiece, store_.flat().count - begin);
    stream.copy_to_device(piece.ptr(), image.data() + begin, count * dtype_size(DType::kF32));
    device.kernels().cast(stream,
                          {.source = piece.ptr(),
                           .destination = weights.ptr() + begin * dtype_size(weights.dtype()),
                           .count = count,
                           .source_dtype = DType::kF32,
                           .destination_dtype = weights.dtype()});
  }
  for (const OwnedRange& range : owned_) {
    stream.copy_to_device(master_.ptr() + range.shard_begin * dtype_size(DType::kF32),
                          image.data() + range.flat_begin, range.count * dtype_size(DType::kF32));
  }
}

double ShardedAdamw::global_grad_norm() {
  Device& device = store_.device();
  Tensor sum(device, {1}, DType::kF32, MemoryCategory::kWorkspace);
  device.stream().zero(sum.ptr(), sum.bytes());
  for (const Segment& segment : segments_) {
    if (segment.norm_weight == 0) {
      continue;
    }
    device.kernels().sum_squares(
        device.stream(),
        {.x = store_.grads().ptr() + segment.range.flat_begin * dtype_size(DType::kF32),
         .out = sum.ptr(),
         .count = segment.range.count,
         .weight = segment.norm_weight});
  }
  if (context_.all().size() > 1) {
    context_.all().all_reduce({.buffer = sum.ptr(), .count = 1});
  }
  float value = 0;
  device.stream().copy_to_host(&value, sum.ptr(), sizeof(value));
  device.stream().synchronize();
  return std::sqrt(static_cast<double>(value));
}

void ShardedAdamw::step(const Step& options) {
  Device& device = store_.device();
  Tensor& weights = store_.weights();
  constexpr int64_t kElement = dtype_size(DType::kF32);
  for (const Segment& segment : segments_) {
    const OwnedRange& range = segment.range;
    AdamwArgs args;
    const DevicePtr weight = weights.ptr() + range.flat_begin * dtype_size(weights.dtype());
    args.param = master_ ? master_.ptr() + range.shard_begin * kElement : weight;
    if (master_) {
      args.low_precision = weight;
      args.low_precision_dtype = weights.dtype();
    }
    args.grad = store_.grads().ptr() + range.flat_begin * kElement;
    args.exp_avg = exp_avg_.ptr() + range.shard_begin * kElement;
    args.exp_avg_sq = exp_avg_sq_.ptr() + range.shard_begin * kElement;
    args.count = range.count;
    args.lr = static_cast<float>(options.lr);
    args.beta1 = static_cast<float>(config_.beta1);
    args.beta2 = static_cast<float>(config_.beta2);
    args.eps = static_cast<float>(config_.eps);
    args.weight_decay = segment.weight_decay ? static_cast<float>(config_.weight_decay) : 0.0F;
    args.grad_scale = static_cast<float>(options.grad_scale);
    args.step = options.step;
    device.kernels().adamw(device.stream(), args);
  }
  gather();
}

void ShardedAdamw::gather() {
  ProcessGroup& dp = context_.dp();
  if (!sharded_ || dp.size() == 1) {
    return;
  }
  const DType dtype = store_.weights().dtype();
  const std::vector<Bucket>& buckets = store_.flat().buckets;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const int64_t part = (buckets[i].end - buckets[i].begin) / dp.size();
    const DevicePtr begin = store_.weights().ptr() + buckets[i].begin * dtype_size(dtype);
    gathers_[i] = dp.all_gather({.input = begin + dp.rank() * part * dtype_size(dtype),
                                 .output = begin,
                                 .count = part,
                                 .dtype = dtype,
                                 .async = true});
  }
}

void ShardedAdamw::wait_unit(int chunk, int64_t unit) {
  const std::vector<Bucket>& buckets = store_.flat().buckets;
  for (size_t i = 0; i < buckets.size(); ++i) {
    // Buckets lie in the order of their units: everything up to `unit` is waited for.
    if (buckets[i].chunk == chunk && buckets[i].ready_after <= unit) {
      gathers_[i].wait();
      gathers_[i] = Work();
    }
  }
}

void ShardedAdamw::wait_all() {
  for (Work& work : gathers_) {
    work.wait();
    work = Work();
  }
}

Tensor ShardedAdamw::master(const OwnedRange& range) const {
  return master_ ? master_.view(range.shard_begin, {range.count})
                 : store_.weights().view(range.flat_begin, {range.count});
}

}  // namespace plait
