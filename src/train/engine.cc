#include "train/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "comm/gather_values.h"

namespace plait {
namespace {

std::vector<Action> stage_actions(const EngineConfig& config, int64_t num_microbatches, int stage) {
  const Layout& layout = config.layout;
  return make_schedule(
      {.kind = layout.schedule,
       .pp = layout.pp,
       .vpp = layout.vpp,
       .num_microbatches = static_cast<int>(num_microbatches)})[static_cast<size_t>(stage)];
}

}  // namespace

void LossScale::update(bool overflow) {
  if (overflow) {
    scale /= 2;
    good_steps = 0;
  } else if (++good_steps == kGrowthInterval) {
    scale = std::min(2 * scale, kScaleMax);
    good_steps = 0;
  }
}

Engine::Engine(const EngineConfig& config, World& world)
    : config_(config),
      num_microbatches_(config.batch.num_microbatches(config.layout)),
      context_(config_.layout, world),
      store_(config_.model, context_,
             {.compute_dtype = config.compute_dtype,
              .vocab_multiple = config.vocab_multiple,
              .bucket_count = config.bucket_count}),
      optimizer_(store_, context_, config.adamw, config.layout.zero >= 1),
      reducer_(store_, context_,
               {.scatter = config.layout.zero >= 1, .overlap = config.overlap_grad_reduce}),
      model_(config_.model, context_,
             {.rows = config.batch.micro_batch_size,
              .seq_len = config.batch.seq_len,
              .dtype = config.compute_dtype},
             store_),
      runner_(context_,
              {.tokens = config.batch.micro_batch_size * config.batch.seq_len /
                         (config.layout.sp ? config.layout.tp : 1),
               .hidden = config.model.hidden_size,
               .dtype = config.compute_dtype},
              stage_actions(config_, num_microbatches_, context_.coordinate(Axis::kPp))) {
  model_.set_hooks(
      {.before_unit = [this](int chunk, int64_t unit) { optimizer_.wait_unit(chunk, unit); },
       .unit_complete = [this](int chunk, int64_t unit) { reducer_.unit_complete(chunk, unit); },
       .chunk_complete = [this](int chunk) { reducer_.chunk_complete(chunk); }});
}

void Engine::init_weights(const ParameterStore::ShardSource& source) {
  optimizer_.set_weights(store_.build_image(source));
}

Engine::Loaded Engine::load(const RowReader& read) {
  const BatchConfig& batch = config_.batch;
  const int64_t rows_per_replica = num_microbatches_ * batch.micro_batch_size;
  const int64_t first = context_.coordinate(Axis::kDp) * rows_per_replica;
  Loaded loaded;
  int64_t local_targets = 0;
  for (int64_t m = 0; m < num_microbatches_; ++m) {
    MicroBatch microbatch;
    const auto size = static_cast<size_t>(batch.micro_batch_size * batch.seq_len);
    microbatch.tokens.assign(size, 0);
    microbatch.targets.assign(size, -100);
    for (int64_t r = 0; r < batch.micro_batch_size; ++r) {
      const int64_t row = first + m * batch.micro_batch_size + r;
      if (row < batch.global_batch_size) {
        read(row, microbatch.tokens.data() + r * batch.seq_len,
             microbatch.targets.data() + r * batch.seq_len);
      }
    }
    for (const int32_t target : microbatch.targets) {
      local_targets += target >= 0 ? 1 : 0;
    }
    loaded.microbatches.push_back(std::move(microbatch));
  }
  for (const int64_t targets : gather_values(context_.dp(), local_targets)) {
    loaded.target_tokens += targets;
  }
  return loaded;
}

double Engine::world_loss(double local_sum) {
  const bool counts = context_.coordinate(Axis::kTp) == 0;
  double sum = 0;
  for (const double theirs : gather_values(context_.all(), counts ? local_sum : 0.0)) {
    sum += theirs;
  }
  return sum;
}

StepResult Engine::forward_backward(const RowReader& read) {
  const double start = now_s();
  context_.recorder().begin_step();
  const Loaded loaded = load(read);
  StepResult result;
  result.target_tokens = loaded.target_tokens;
  if (loaded.target_tokens == 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "the batch has no target token: every label is masked; check the labels");
  }
  store_.begin_grads();
  reducer_.begin_step();
  const bool scaled = config_.compute_dtype == DType::kF16;
  applied_scale_ = scaled ? loss_scale_.scale : 1.0;
  model_.set_batch(loaded.microbatches,
                   static_cast<float>(applied_scale_ / static_cast<double>(loaded.target_tokens)));
  runner_.run(model_);
  store_.check_grads();
  reducer_.finish();
  result.loss = world_loss(model_.loss_sum()) / static_cast<double>(loaded.target_tokens);
  result.grad_norm = optimizer_.global_grad_norm() / applied_scale_;
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  // Below a scale of 1 overflow is not the scale's fault.
  result.overflow = scaled && std::isfinite(result.loss) && !finite && applied_scale_ >= 1;
  if (!finite && !result.overflow) {
    report_non_finite(read, result);
  }
  if (scaled) {
    loss_scale_.update(result.overflow);
  }
  times_ = {.total_s = now_s() - start, .waits = context_.recorder().waits(), .optimizer_s = 0};
  return result;
}

void Engine::update(double lr, int64_t step, double grad_norm) {
  const double start = now_s();
  double scale = 1 / applied_scale_;
  if (config_.clip_grad_norm > 0) {
    // As torch.nn.utils.clip_grad_norm_.
    scale *= std::min(1.0, config_.clip_grad_norm / (grad_norm + 1e-6));
  }
  optimizer_.step({.lr = lr, .grad_scale = scale, .step = step});
  times_.optimizer_s = now_s() - start;
  times_.total_s += times_.optimizer_s;
}

StepResult Engine::evaluate(const RowReader& read) {
  const Loaded loaded = load(read);
  model_.set_batch(loaded.microbatches, 0);
  runner_.run_forward(model_);
  const double sum = world_loss(model_.loss_sum());
  return {.loss = sum / static_cast<double>(std::max<int64_t>(loaded.target_tokens, 1)),
          .grad_norm = 0,
          .target_tokens = loaded.target_tokens,
          .overflow = false};
}

void Engine::report_non_finite(const RowReader& read, const StepResult& result) {
  // Forward: the first layer whose output is not finite. Backward runs from the last layer to the
  // first, so there the guilty one is the last layer with a bad gradient.
  const bool forward = !std::isfinite(result.loss);
  int64_t layer = forward ? std::numeric_limits<int64_t>::max() : -2;
  const auto finite = [&](const Tensor& tensor) { return model_.is_finite(tensor); };
  if (forward) {
    model_.set_output_hook([&](int64_t unit, const Tensor& output) {
      if (!finite(output)) {
        layer = std::min(layer, unit);
      }
    });
    evaluate(read);
    model_.set_output_hook({});
  } else {
    for (const LocalParam& param : store_.flat().params) {
      const ParamSpec& spec = store_.table()[static_cast<size_t>(param.spec_index)];
      if (!finite(store_.grads().view(param.offset, {param.shard.count()}))) {
        const int64_t unit = spec.section == Section::kLayer  ? spec.layer
                             : spec.section == Section::kHead ? config_.model.num_layers
                                                              : -1;
        layer = std::max(layer, unit);
      }
    }
  }
  const std::vector<int64_t> all = gather_values(context_.all(), layer);
  const auto guilty = forward ? std::ranges::min_element(all) : std::ranges::max_element(all);
  const auto guilty_rank = guilty - all.begin();
  const int64_t unit = *guilty;
  const std::string place = unit < 0                           ? "the embedding"
                            : unit >= config_.model.num_layers ? "the head"
                                                               : fmt::format("layer {}", unit);
  throw_error(ErrorCode::kNonFinite,
              "{} is not finite (loss {}, gradient norm {}): first seen in {} of {} on rank {}; "
              "lower the learning rate, check the data, or resume from an earlier checkpoint",
              forward ? "the loss" : "the gradient norm", result.loss, result.grad_norm,
              forward ? "the output" : "the gradient", place, guilty_rank);
}

}  // namespace plait
