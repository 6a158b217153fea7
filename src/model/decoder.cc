#include "model/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/round_up.h"
#include "model/rope.h"

namespace plait {
namespace {

constexpr int64_t kFloat = 4;                           // bytes of f32 and i32
constexpr int64_t kPopulatedAtOnce = int64_t{8} << 20;  // bytes of a layer's cache

DType f32() {
  return DType::kF32;
}

Tensor workspace(Device& device, std::vector<int64_t> shape, DType dtype) {
  return Tensor(device, std::move(shape), dtype, MemoryCategory::kWorkspace);
}

DevicePtr pointer_or_null(const Tensor& tensor) {
  return tensor ? tensor.ptr() : DevicePtr();
}

int64_t padded_vocab(const ModelConfig& config, int tp) {
  return round_up(config.vocab_size, tp);
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const ParallelContext& context, DecoderWeights weights,
                 const DecoderOptions& options)
    : config_(config),
      context_(context),
      device_(context.device()),
      link_(context),
      weights_(std::move(weights)),
      options_(options),
      heads_(config.num_heads / context.tp().size()),
      kv_heads_(config.num_kv_heads / context.tp().size()),
      ffn_(config.ffn_hidden_size / context.tp().size()),
      vocab_rows_(padded_vocab(config, context.tp().size()) / context.tp().size()),
      kv_{.kv_heads = kv_heads_, .head_dim = config.head_dim, .dtype = options.kv_dtype},
      rope_(make_rope_table(device_, config, options.max_positions)),
      buffers_(make_buffers(options.max_rows)) {
  CHECK_LE(options_.vocab_limit, config.vocab_size);
  const int64_t block_bytes = device_.kernels().kv_block_bytes(kv_);
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    caches_.push_back(std::make_unique<Buffer>(device_, options.num_blocks * block_bytes,
                                               MemoryCategory::kKvCache));
  }
  const int64_t rows = options.max_rows;
  const int64_t runs = options.max_runs;
  const int64_t blocks = (options.max_positions + kKvBlockTokens - 1) / kKvBlockTokens;
  tokens_ = workspace(device_, {rows}, DType::kI32);
  positions_ = workspace(device_, {rows}, DType::kI32);
  slots_ = workspace(device_, {rows}, DType::kI32);
  runs_ =
      workspace(device_, {runs, static_cast<int64_t>(sizeof(AttentionRun)) / kFloat}, DType::kI32);
  tables_ = workspace(device_, {runs, blocks}, DType::kI32);
  const int64_t tp = context.tp().size();
  best_ = workspace(device_, {tp, 2, runs}, DType::kI32);
  if (link_.first() || link_.last()) {
    logits_ = workspace(device_, {tp, runs, vocab_rows_}, f32());
  }
  if (link_.last()) {
    head_x_ = workspace(device_, {runs, config.hidden_size}, f32());
    head_delta_ = workspace(device_, {runs, config.hidden_size}, f32());
    head_y_ = workspace(device_, {runs, config.hidden_size}, options.activation_dtype);
  }
  emit_ops(buffers_, [this](const DecoderOp& op) { plan_.push_back(op); });
}

Decoder::Buffers Decoder::make_buffers(int64_t rows) const {
  const DType dtype = options_.activation_dtype;
  const int64_t hidden = config_.hidden_size;
  const int64_t qkv_cols = (heads_ + 2 * kv_heads_) * config_.head_dim;
  return {.x = workspace(device_, {rows, hidden}, f32()),
          .delta = workspace(device_, {rows, hidden}, f32()),
          .y = workspace(device_, {rows, hidden}, dtype),
          .qkv = workspace(device_, {rows, qkv_cols}, dtype),
          .attention = workspace(device_, {rows, heads_ * config_.head_dim}, dtype),
          .gate_up = workspace(device_, {rows, 2 * ffn_}, dtype),
          .product = workspace(device_, {rows, ffn_}, dtype)};
}

MatmulPackedArgs Decoder::product(const PackedMatrix& matrix, const Tensor& bias) const {
  return {.a = {},
          .packed = matrix.ptr(),
          .c = {},
          .bias = pointer_or_null(bias),
          .weight = matrix.weight(),
          .a_stride = matrix.weight().k,
          .c_stride = matrix.weight().n,
          .a_dtype = options_.activation_dtype,
          .c_dtype = options_.activation_dtype};
}

template <typename Emit>
void Decoder::emit_layer(const Buffers& buffers, size_t index, Emit emit) const {
  const DecoderLayerWeights& weights = weights_.layers[index];
  const DType dtype = options_.activation_dtype;
  const int64_t hidden = config_.hidden_size;
  const auto norm = [&](const Tensor& weight, DevicePtr delta) {
    emit(NormRowsArgs{.x = buffers.x.ptr(),
                      .delta = delta,
                      .weight = weight.ptr(),
                      .y = buffers.y.ptr(),
                      .cols = hidden,
                      .x_stride = hidden,
                      .delta_stride = hidden,
                      .y_stride = hidden,
                      .eps = static_cast<float>(config_.rms_norm_eps),
                      .x_dtype = f32(),
                      .y_dtype = dtype});
  };
  const auto matmul = [&](MatmulPackedArgs args, const Tensor& a, const Tensor& c) {
    args.a = a.ptr();
    args.c = c.ptr();
    args.c_dtype = c.dtype();
    emit(args);
  };
  norm(weights.norm1, index == 0 ? DevicePtr() : buffers.delta.ptr());
  matmul(product(weights.qkv, weights.qkv_bias), buffers.y, buffers.qkv);
  emit(PrepareQkvArgs{.qkv = buffers.qkv.ptr(),
                      .q_norm = pointer_or_null(weights.q_norm),
                      .k_norm = pointer_or_null(weights.k_norm),
                      .cos = rope_.cos.ptr(),
                      .sin = rope_.sin.ptr(),
                      .positions = positions_.ptr(),
                      .slots = slots_.ptr(),
                      .kv_cache = caches_[index]->ptr(),
                      .kv = kv_,
                      .heads = heads_,
                      .qkv_stride = buffers.qkv.dim(1),
                      .norm_eps = static_cast<float>(config_.rms_norm_eps),
                      .dtype = dtype});
  emit(PagedAttentionArgs{.q = buffers.qkv.ptr(),
                          .out = buffers.attention.ptr(),
                          .kv_cache = caches_[index]->ptr(),
                          .runs = runs_.ptr(),
                          .block_tables = tables_.ptr(),
                          .kv = kv_,
                          .heads = heads_,
                          .q_stride = buffers.qkv.dim(1),
                          .out_stride = buffers.attention.dim(1),
                          .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim)),
                          .dtype = dtype});
  matmul(product(weights.o, weights.o_bias), buffers.attention, buffers.delta);
  emit(SumRows{buffers.delta.ptr(), hidden});
  norm(weights.norm2, buffers.delta.ptr());
  matmul(product(weights.gate_up, weights.gate_up_bias), buffers.y, buffers.gate_up);
  emit(SwigluForwardArgs{.gate_up = buffers.gate_up.ptr(),
                         .out = buffers.product.ptr(),
                         .cols = ffn_,
                         .dtype = dtype});
  matmul(product(weights.down, weights.down_bias), buffers.product, buffers.delta);
  emit(SumRows{buffers.delta.ptr(), hidden});
}

template <typename Emit>
void Decoder::emit_ops(const Buffers& buffers, Emit emit) const {
  const int64_t hidden = config_.hidden_size;
  if (link_.first()) {
    emit(EmbeddingPackedArgs{.ids = tokens_.ptr(),
                             .packed = weights_.embedding.ptr(),
                             .out = buffers.x.ptr(),
                             .weight = weights_.embedding.weight(),
                             .vocab_begin = weights_.vocab_begin,
                             .out_dtype = f32()});
    emit(SumRows{buffers.x.ptr(), hidden});
  } else {
    emit(ReceiveRows{buffers.x.ptr(), hidden});
  }
  for (size_t index = 0; index < weights_.layers.size(); ++index) {
    emit_layer(buffers, index, emit);
  }
  if (!link_.last()) {
    emit(AddRows{.x = buffers.x.ptr(), .delta = buffers.delta.ptr(), .cols = hidden});
    emit(SendRows{buffers.x.ptr(), hidden});
  }
}

void Decoder::populate_cache(double limit_s) {
  const double until = now_s() + limit_s;
  for (int64_t begin = 0; begin < caches_[0]->bytes() && now_s() < until;
       begin += kPopulatedAtOnce) {
    for (const std::unique_ptr<Buffer>& cache : caches_) {
      device_.populate(cache->ptr() + begin, std::min(kPopulatedAtOnce, cache->bytes() - begin));
    }
  }
}

void Decoder::upload(const DecoderBatch& batch) {
  CHECK_LE(std::ssize(batch.tokens), options_.max_rows);
  CHECK_LE(std::ssize(batch.runs), options_.max_runs);
  Stream& stream = device_.stream();
  const auto copy = [&](const Tensor& to, const auto& from) {
    stream.copy_to_device(to.ptr(), from.data(), static_cast<int64_t>(from.size_bytes()));
  };
  copy(tokens_, batch.tokens);
  copy(positions_, batch.positions);
  copy(slots_, batch.slots);
  copy(runs_, batch.runs);
  copy(tables_, batch.block_tables);
}

void Decoder::gather_sampled(const Buffers& buffers, std::span<const int32_t> rows) {
  Stream& stream = device_.stream();
  const int64_t row_bytes = config_.hidden_size * kFloat;
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) {
      ++end;
    }
    const int64_t bytes = static_cast<int64_t>(end - begin) * row_bytes;
    const int64_t from = rows[begin] * row_bytes;
    const int64_t to = static_cast<int64_t>(begin) * row_bytes;
    stream.copy(head_x_.ptr() + to, buffers.x.ptr() + from, bytes);
    stream.copy(head_delta_.ptr() + to, buffers.delta.ptr() + from, bytes);
    begin = end;
  }
}

void Decoder::run_head(const Buffers& buffers, const DecoderBatch& batch) {
  gather_sampled(buffers, batch.sampled_rows);
  Kernels& kernels = device_.kernels();
  Stream& stream = device_.stream();
  const int64_t hidden = config_.hidden_size;
  const int64_t part = context_.tp().rank();
  kernels.norm_rows(stream, {.x = head_x_.ptr(),
                             .delta = head_delta_.ptr(),
                             .weight = weights_.final_norm.ptr(),
                             .y = head_y_.ptr(),
                             .rows = sampled_,
                             .cols = hidden,
                             .x_stride = hidden,
                             .delta_stride = hidden,
                             .y_stride = hidden,
                             .eps = static_cast<float>(config_.rms_norm_eps),
                             .x_dtype = f32(),
                             .y_dtype = options_.activation_dtype});
  MatmulPackedArgs head = product(weights_.head, {});
  head.a = head_y_.ptr();
  head.c = logits_.ptr() + part * sampled_ * vocab_rows_ * kFloat;
  head.c_dtype = f32();
  head.m = sampled_;
  kernels.matmul_packed(stream, head);
  const DevicePtr best = best_.ptr() + part * 2 * sampled_ * kFloat;
  kernels.row_argmax(stream, {.logits = head.c,
                              .ids = best,
                              .values = best + sampled_ * kFloat,
                              .rows = sampled_,
                              .cols = std::clamp<int64_t>(
                                  options_.vocab_limit - weights_.vocab_begin, 1, vocab_rows_),
                              .stride = vocab_rows_});
  context_.tp()
      .all_gather(
          {.input = best, .output = best_.ptr(), .count = 2 * sampled_, .dtype = DType::kI32})
      .wait();
  if (have_logits_) {
    context_.tp()
        .all_gather({.input = head.c, .output = logits_.ptr(), .count = sampled_ * vocab_rows_})
        .wait();
  }
}

void Decoder::forward(const DecoderBatch& batch) {
  sampled_ = std::ssize(batch.sampled_rows);
  have_logits_ = batch.want_logits;
  upload(batch);
  const StepSize size{.rows = std::ssize(batch.tokens),
                      .runs = std::ssize(batch.runs),
                      .table_stride = batch.table_stride};
  const double start_s = now_s();
  Buffers fresh;
  if (options_.eager) {
    fresh = make_buffers(size.rows);
    emit_ops(fresh, [&](const DecoderOp& op) { run_decoder_op(op, size, context_); });
  } else {
    for (const DecoderOp& op : plan_) {
      run_decoder_op(op, size, context_);
    }
  }
  if (sampled_ > 0) {
    run_end(options_.eager ? fresh : buffers_, batch);
  }
  kernel_s_ += now_s() - start_s;
}

void Decoder::run_end(const Buffers& buffers, const DecoderBatch& batch) {
  if (link_.last()) {
    run_head(buffers, batch);
  }
  const int64_t tp = context_.tp().size();
  link_.bring_back(best_.ptr(), tp * 2 * sampled_ * kFloat);
  if (have_logits_) {
    link_.bring_back(logits_.ptr(), tp * sampled_ * vocab_rows_ * kFloat);
  }
}

void Decoder::read_best(std::span<int32_t> ids) {
  CHECK_EQ(std::ssize(ids), sampled_);
  const int64_t tp = context_.tp().size();
  std::vector<int32_t> found(static_cast<size_t>(tp * 2 * sampled_));
  device_.stream().copy_to_host(found.data(), best_.ptr(), std::ssize(found) * kFloat);
  device_.stream().synchronize();
  for (int64_t row = 0; row < sampled_; ++row) {
    float best = 0;
    for (int64_t part = 0; part < tp; ++part) {
      const int64_t at = part * 2 * sampled_ + row;
      const auto value = std::bit_cast<float>(found[static_cast<size_t>(at + sampled_)]);
      // A shard that holds padding alone has no say.
      const bool any = part * vocab_rows_ < options_.vocab_limit;
      if (part == 0 || (any && value > best)) {
        best = value;
        ids[static_cast<size_t>(row)] =
            found[static_cast<size_t>(at)] + static_cast<int32_t>(part * vocab_rows_);
      }
    }
  }
}

void Decoder::read_logits(int64_t index, std::span<float> out) {
  CHECK(have_logits_);
  CHECK_EQ(std::ssize(out), options_.vocab_limit);
  for (int64_t begin = 0; begin < options_.vocab_limit; begin += vocab_rows_) {
    const int64_t count = std::min(vocab_rows_, options_.vocab_limit - begin);
    const int64_t part = begin / vocab_rows_;
    device_.stream().copy_to_host(&out[static_cast<size_t>(begin)],
                                  logits_.ptr() + (part * sampled_ + index) * vocab_rows_ * kFloat,
                                  count * kFloat);
  }
  device_.stream().synchronize();
}

int64_t Decoder::block_bytes(const ModelConfig& config, const Layout& layout, DType kv_dtype,
                             const Kernels& kernels) {
  int64_t layers = 0;
  for (const LayerRange& range : split_layers(layout, config.num_layers)) {
    layers = std::max(layers, range.count());
  }
  return layers * kernels.kv_block_bytes({.kv_heads = config.num_kv_heads / layout.tp,
                                          .head_dim = config.head_dim,
                                          .dtype = kv_dtype});
}

int64_t Decoder::buffer_bytes(const ModelConfig& config, const Layout& layout,
                              const DecoderOptions& options) {
  const int64_t tp = layout.tp;
  const int64_t row_cols = 3 * config.hidden_size +
                           (2 * config.num_heads + 2 * config.num_kv_heads) / tp * config.head_dim +
                           3 * config.ffn_hidden_size / tp;
  const int64_t blocks = options.max_positions / kKvBlockTokens + 1;
  return kFloat *
         (options.max_rows * row_cols +
          options.max_runs * (padded_vocab(config, layout.tp) + 3 * config.hidden_size + blocks) +
          options.max_positions * config.head_dim);
}

}  // namespace plait
