#include "serve/options.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/units.h"
#include "spec/validate.h"

namespace plait {
namespace {

// Of the free memory, what the cache may take by default, and what always stays free.
constexpr double kDefaultShare = 0.6;
constexpr double kUsableShare = 0.92;

DType resolve(ServingDType dtype, DType automatic) {
  return dtype == ServingDType::kAuto  ? automatic
         : dtype == ServingDType::kF32 ? DType::kF32
                                       : DType::kBF16;
}

void check_options(const ServedModel& model, const ServingOptions& options) {
  const Layout& layout = options.layout;
  if (layout.cp > 1 || layout.ep > 1 || layout.vpp > 1 || layout.sp || layout.zero > 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "layout {}: serving splits a model by tp and pp and copies it by dp; leave out the "
                "other parts",
                to_string(layout));
  }
  check_run({.model = model.config,
             .layout = layout,
             .batch = {.global_batch_size = layout.dp, .micro_batch_size = 1, .seq_len = 1}});
  const std::pair<const char*, int64_t> counts[] = {
      {"max-num-seqs", options.max_num_seqs},
      {"max-num-batched-tokens", options.max_num_batched_tokens}};
  for (const auto& [name, value] : counts) {
    if (value < 1 || value > 65536) {
      throw_error(ErrorCode::kInvalidArgument, "{} is {}; it must be 1 to 65536", name, value);
    }
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "max-num-batched-tokens is {}; it must be at least max-num-seqs = {}, so that every "
        "running request can get a token in each step",
        options.max_num_batched_tokens, options.max_num_seqs);
  }
  if (options.max_num_queued < 0 || options.kv_cache_gib < 0 || options.max_model_len < 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "max-num-queued-reqs, kv-cache-gib and max-model-len must not be negative");
  }
  const int64_t most = model.config.max_position_embeddings;
  if (options.max_model_len == 1) {
    throw_error(ErrorCode::kInvalidArgument,
                "max-model-len is 1; a prompt and an answer have at least a token each");
  }
  if (options.max_model_len > most) {
    throw_error(ErrorCode::kInvalidArgument, "max-model-len is {}; {} has {} positions",
                options.max_model_len, model.path, most);
  }
}

[[noreturn]] void refuse_memory(const ServingPlan& plan, const std::string& what, int64_t needed,
                                int64_t usable) {
  throw_error(ErrorCode::kInvalidArgument,
              "{} does not fit: a rank of layout {} needs {} (weights {}, buffers {}, cache {} for "
              "{} tokens), and {} are usable per rank; try a smaller --max-model-len or "
              "--kv-cache-gib, --quantize w8, or more hosts",
              what, to_string(plan.layout), format_bytes(needed), format_bytes(plan.weight_bytes),
              format_bytes(plan.buffer_bytes), format_bytes(plan.kv_bytes()), plan.kv_tokens(),
              format_bytes(usable));
}

// Chooses num_blocks and max_positions.
void plan_cache(const ServingOptions& options, int64_t usable, ServingPlan& plan) {
  DecoderOptions& decoder = plan.decoder;
  const auto blocks_for = [](int64_t tokens) {
    return (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
  };
  const int64_t fixed = plan.weight_bytes + plan.buffer_bytes;
  const int64_t left = usable - fixed;
  if (left < plan.block_bytes) {
    decoder.num_blocks = 1;
    refuse_memory(plan, "the model", fixed + plan.block_bytes, usable);
  }
  if (options.kv_cache_gib > 0) {
    decoder.num_blocks = static_cast<int64_t>(options.kv_cache_gib * kGiB) / plan.block_bytes;
    if (plan.kv_bytes() > left) {
      refuse_memory(plan, "the model", fixed + plan.kv_bytes(), usable);
    }
  } else {
    const int64_t wanted = blocks_for(decoder.max_positions) * options.max_num_seqs;
    const auto share = static_cast<int64_t>(static_cast<double>(left) * kDefaultShare);
    decoder.num_blocks = std::min(wanted, share / plan.block_bytes);
    if (options.max_model_len > 0) {
      decoder.num_blocks = std::max(
          decoder.num_blocks, std::min(blocks_for(options.max_model_len), left / plan.block_bytes));
    }
  }
  if (decoder.num_blocks < blocks_for(decoder.max_positions)) {
    if (options.max_model_len > 0 || decoder.num_blocks < 1) {
      decoder.num_blocks = blocks_for(decoder.max_positions);
      refuse_memory(plan, fmt::format("one request of {} tokens", decoder.max_positions),
                    fixed + plan.kv_bytes(),
                    options.kv_cache_gib > 0
                        ? fixed + static_cast<int64_t>(options.kv_cache_gib * kGiB)
                        : usable);
    }
    decoder.max_positions = decoder.num_blocks * kKvBlockTokens;
  }
}

}  // namespace

std::string ServingPlan::summary() const {
  return fmt::format(
      "per rank: weights {}, buffers {}, KV cache {}: {} blocks of {} tokens, {} tokens in all, {} "
      "requests of the full length {}",
      format_bytes(weight_bytes), format_bytes(buffer_bytes), format_bytes(kv_bytes()),
      decoder.num_blocks, kKvBlockTokens, kv_tokens(), kv_tokens() / limits.max_model_len,
      limits.max_model_len);
}

ServingPlan plan_serving(const ServedModel& model, const ServingOptions& options,
                         const HostLimits& host) {
  check_options(model, options);
  ServingPlan plan;
  plan.layout = options.layout;
  const bool bf16_file = model.file_dtype == DType::kBF16;
  DecoderOptions& decoder = plan.decoder;
  decoder.activation_dtype =
      resolve(options.dtype, bf16_file && cpu_info().avx512_bf16 ? DType::kBF16 : DType::kF32);
  decoder.kv_dtype = resolve(options.kv_dtype, options.dtype == ServingDType::kAuto && bf16_file
                                                   ? DType::kBF16
                                                   : decoder.activation_dtype);
  const bool bf16_weights = bf16_file || options.dtype == ServingDType::kBF16;
  plan.format = options.quantization == Quantization::kW8 ? WeightFormat::kInt8
                : bf16_weights                            ? WeightFormat::kBF16
                                                          : WeightFormat::kF32;
  decoder.max_rows = options.max_num_batched_tokens;
  decoder.max_runs = options.max_num_seqs;
  decoder.max_positions =
      options.max_model_len > 0 ? options.max_model_len : model.config.max_position_embeddings;
  decoder.vocab_limit = options.vocab_limit > 0
                            ? std::min(options.vocab_limit, model.config.vocab_size)
                            : model.config.vocab_size;
  decoder.eager = options.eager;
  plan.populate_cache = options.populate_cache;
  plan.weight_bytes = decoder_weight_bytes(model.config, options.layout, plan.format);
  const std::unique_ptr<Device> device = make_device(options.device, {});
  plan.block_bytes =
      Decoder::block_bytes(model.config, options.layout, decoder.kv_dtype, device->kernels());
  plan.buffer_bytes = Decoder::buffer_bytes(model.config, options.layout, decoder);
  const auto usable = static_cast<int64_t>(static_cast<double>(host.free_bytes) * kUsableShare) /
                      std::max(1, host.local_ranks);
  plan_cache(options, usable, plan);
  plan.limits = {.max_model_len = decoder.max_positions,
                 .vocab_size = decoder.vocab_limit,
                 .eos_token_ids = options.eos_token_ids};
  plan.scheduler = {.blocks = {.num_blocks = decoder.num_blocks,
                               .block_tokens = kKvBlockTokens,
                               .prefix_reuse = options.prefix_reuse},
                    .max_num_seqs = options.max_num_seqs,
                    .max_num_batched_tokens = options.max_num_batched_tokens};
  return plan;
}

}  // namespace plait
