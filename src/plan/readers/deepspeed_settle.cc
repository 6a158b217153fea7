// What a DeepSpeed configuration leaves open: devices, batch, model, buffers.
#include <algorithm>

#include "base/text.h"
#include "plan/readers/deepspeed_reader.h"
#include "spec/model_catalog.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

constexpr const char* kBatchCode = "DeepSpeed deepspeed/runtime/config.py, _batch_assertion";

}  // namespace

void DeepSpeedReader::settle_world() {
  TrainJob& job = out_.job;
  const int64_t model_parallel = static_cast<int64_t>(job.layout.tp) * job.layout.cp;
  int64_t world = options_.devices > 0 ? options_.devices : launched_;
  if (world == 0 && batch_ && micro_ && steps_) {
    const int64_t rows = *micro_ * *steps_;
    if (rows <= kMaxDeepSpeedBatch && *batch_ % rows == 0 &&
        *batch_ / rows * model_parallel <= kMaxRanks) {
      world = *batch_ / rows * model_parallel;
      out_.assumptions.push_back(
          {fmt::format("train_batch_size / (micro batch * accumulation) means {} devices", world),
           where("train_batch_size")});
    }
  }
  if (world == 0) {
    world = 1;
    out_.assumptions.push_back(
        {"the number of devices is not in the file: 1 is assumed; give it with --devices N",
         {out_.origin, 0}});
  }
  out_.world_size = static_cast<int>(std::min<int64_t>(world, kMaxRanks));
  job.layout.dp = static_cast<int>(std::max<int64_t>(out_.world_size / model_parallel, 1));
}

// HF's Trainer fills "auto" from its own flags, and does not start where a number differs from
// them.
void DeepSpeedReader::match_launch(const char* key, std::string_view flag, int64_t launched,
                                   std::optional<int64_t>& value) {
  if (launched == 0) {
    return;
  }
  if (value && *value != launched) {
    problem(key, std::to_string(*value),
            fmt::format("differs from {} {}; HF's Trainer does not start then", flag, launched),
            fmt::format("\"auto\" or {}", launched),
            "transformers src/transformers/integrations/deepspeed.py, trainer_config_process");
  }
  value = launched;
}

// train_batch = micro * accumulation * dp; two of the three give the third.
void DeepSpeedReader::settle_batch() {
  BatchConfig& batch = out_.job.batch;
  const int64_t dp = out_.job.layout.dp;
  if (!micro_ && options_.micro_batch_size > 0) {
    micro_ = options_.micro_batch_size;
  }
  match_launch("train_micro_batch_size_per_gpu", "--per_device_train_batch_size", launch_micro_,
               micro_);
  match_launch("gradient_accumulation_steps", "--gradient_accumulation_steps", launch_steps_,
               steps_);
  if (batch_ && !micro_ && steps_ && *batch_ % (*steps_ * dp) == 0) {
    micro_ = *batch_ / (*steps_ * dp);
  } else if (batch_ && !micro_ && !steps_ && *batch_ % dp == 0) {
    micro_ = *batch_ / dp;
  } else if (!batch_ && !micro_) {
    out_.assumptions.push_back(
        {"the micro-batch is not in the file: 1 is assumed", {out_.origin, 0}});
  }
  batch.micro_batch_size = micro_.value_or(1);
  const int64_t unit = std::min(batch.micro_batch_size * dp, kMaxDeepSpeedBatch);
  const int64_t steps = steps_.value_or(batch_ ? std::max<int64_t>(*batch_ / unit, 1) : 1);
  const int64_t product =
      std::min<int64_t>(unit, kMaxDeepSpeedBatch) * std::min<int64_t>(steps, kMaxDeepSpeedBatch);
  batch.global_batch_size = std::min(batch_.value_or(product), kMaxDeepSpeedBatch);
  if (!batch_ || product == *batch_) {
    return;
  }
  const int64_t below = std::max<int64_t>(*batch_ / unit, 1) * unit;
  std::string other;
  for (int64_t ranks = dp + 1; ranks <= 2 * dp && other.empty(); ++ranks) {
    if (*batch_ % (batch.micro_batch_size * ranks) == 0) {
      other = fmt::format(", or {} ranks", ranks);
    }
  }
  problem("train_batch_size", std::to_string(*batch_),
          fmt::format("must equal micro batch * accumulation * ranks = {} * {} * {} = {}",
                      batch.micro_batch_size, steps, dp, product),
          steps_ ? fmt::format("train_batch_size = {}", product)
                 : fmt::format("train_batch_size = {} or {}{}", below, below + unit, other),
          kBatchCode);
  // What is left is judged with a batch that works.
  batch.global_batch_size = std::min(product, kMaxDeepSpeedBatch);
}

void DeepSpeedReader::settle_model() {
  TrainJob& job = out_.job;
  const std::string model = options_.model.empty() ? model_ : options_.model;
  if (!model.empty()) {
    job.model = find_model(model);
    job.model_name = model_title(model);
  } else {
    out_.has_model = false;
    out_.assumptions.push_back(
        {unknown_model_.empty()
             ? "the model is not in the file: memory is not judged; give it with --model"
             : fmt::format(
                   "the shape of '{}' is not known here: memory is not judged; give it with "
                   "--model",
                   shortened(unknown_model_, 100)),
         {out_.origin, 0}});
    job.model.vocab_size = job.model.ffn_hidden_size = job.layout.tp;
    job.model.num_layers = 1;
    job.model.num_heads = job.model.num_kv_heads =
        static_cast<int64_t>(job.layout.tp) * job.layout.cp;
    job.model.head_dim = 2;
    job.model.hidden_size = 2 * job.model.num_heads;
    job.model.family = ModelFamily::kCustom;
  }
  job.vocab_multiple = 1;
  job.batch.seq_len = options_.seq_len > 0 ? options_.seq_len : seq_;
  if (job.batch.seq_len == 0) {
    const int64_t most = job.model.max_position_embeddings;
    job.batch.seq_len = most > 0 ? std::min<int64_t>(4096, most) : 4096;
    if (out_.has_model) {
      out_.memory_is_upper_bound = true;  // as a verdict: nobody said how long the rows are
      out_.assumptions.push_back({fmt::format("the sequence is not in the file: {} tokens are "
                                              "assumed; give them with --seq",
                                              job.batch.seq_len),
                                  {out_.origin, 0}});
    }
  }
  // HF models do not insist on their trained length.
  job.model.max_position_embeddings =
      std::max(job.model.max_position_embeddings, job.batch.seq_len);
}

void DeepSpeedReader::settle_buckets() {
  TrainJob& job = out_.job;
  if (!out_.has_model || job.layout.zero == 0) {
    return;
  }
  const auto most = static_cast<double>(
      count_parameters(make_parameter_table(job.model, {.tp = 1, .vocab_multiple = 1})));
  const auto hidden = static_cast<double>(job.model.hidden_size);
  // HF's Trainer fills "auto" with hidden^2.
  const double reduce = auto_buckets_ ? hidden * hidden : reduce_elements_;
  const double gather =
      auto_buckets_ ? std::min(hidden * hidden, gather_elements_) : gather_elements_;
  const double elements = bucket_copies_ * (std::min(reduce, most) + std::min(gather, most)) +
                          std::min(live_elements_, most);
  job.bucket_bytes = static_cast<int64_t>(2 * elements);
  out_.assumptions.push_back(
      {fmt::format("buckets and gathered weights take {:.1f} GB (reduce_bucket_size, "
                   "allgather_bucket_size, stage3_max_live_parameters)",
                   2e-9 * elements),
       where("zero_optimization")});
}

}  // namespace plait
