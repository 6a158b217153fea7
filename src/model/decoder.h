// Inference of the Qwen3, Qwen2 and Llama families over a paged KV cache: many sequences in one
// batch, in chunks of any size, on the tp and pp groups of a ParallelContext. In f32 the bits of a
// row depend on its own tokens alone. Letters: tensor/tensor.h; R rows of a step, S sampled rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder_ops.h"
#include "model/decoder_weights.h"
#include "op/attention.h"
#include "parallel/parallel_context.h"
#include "spec/model_config.h"
#include "tensor/tensor.h"

namespace plait {

struct DecoderOptions {
  DType activation_dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  int64_t num_blocks = 0;     // of the cache, kKvBlockTokens tokens each
  int64_t max_positions = 0;  // tokens of the longest sequence
  int64_t max_rows = 0;       // tokens of a step
  int64_t max_runs = 0;       // sequences of a step
  // Ids at or beyond it are never the best; at most the model's vocabulary.
  int64_t vocab_limit = 0;
  // Makes buffers and calls anew in each step instead of running the prepared list: the reference.
  bool eager = false;
};

// One step, the same on every rank of a replica. Everything lies on the host.
struct DecoderBatch {
  std::span<const int32_t> tokens, positions, slots;  // [R]; slots as PrepareQkvArgs
  std::span<const AttentionRun> runs;                 // cover the rows; run i uses table i
  std::span<const int32_t> block_tables;              // [runs, table_stride]
  int64_t table_stride = 0;
  std::span<const int32_t> sampled_rows;  // [S], at most max_runs, in any order
  bool want_logits = false;               // of the sampled rows; else their best tokens only
};

class Decoder {
 public:
  // config and context must outlive it. Allocates the cache and all buffers.
  Decoder(const ModelConfig& config, const ParallelContext& context, DecoderWeights weights,
          const DecoderOptions& options);

  // Collective over the replica. Requires: not empty, within the limits of the options.
  void forward(const DecoderBatch& batch);
  // See Device::populate: the cache, from its first block on, for at most limit_s.
  void populate_cache(double limit_s);

  // Of the last forward, in the order of sampled_rows; on the ranks of the first stage. Both wait
  // for the device.
  void read_best(std::span<int32_t> ids);
  // Logits of ids [0, vocab_limit) of sampled row `index`. Requires: want_logits.
  void read_logits(int64_t index, std::span<float> out);

  // Seconds that this rank has spent in kernels and transfers, all forwards together.
  double kernel_s() const { return kernel_s_; }

  // Bytes of the cache a block takes on this layout's largest rank, all its layers together.
  static int64_t block_bytes(const ModelConfig& config, const Layout& layout, DType kv_dtype,
                             const Kernels& kernels);
  // Bytes of buffers beside weights and cache.
  static int64_t buffer_bytes(const ModelConfig& config, const Layout& layout,
                              const DecoderOptions& options);

 private:
  struct Buffers {
    Tensor x, delta, y, qkv, attention, gate_up, product;
  };
  Buffers make_buffers(int64_t rows) const;
  // Calls emit(op) for every operator up to the head.
  template <typename Emit>
  void emit_ops(const Buffers& buffers, Emit emit) const;
  template <typename Emit>
  void emit_layer(const Buffers& buffers, size_t index, Emit emit) const;
  MatmulPackedArgs product(const PackedMatrix& matrix, const Tensor& bias) const;
  void upload(const DecoderBatch& batch);
  void gather_sampled(const Buffers& buffers, std::span<const int32_t> rows);
  // From the last layer to results on the first stage.
  void run_end(const Buffers& buffers, const DecoderBatch& batch);
  void run_head(const Buffers& buffers, const DecoderBatch& batch);

  const ModelConfig& config_;
  const ParallelContext& context_;
  Device& device_;
  StageLink link_;
  DecoderWeights weights_;
  DecoderOptions options_;
  int64_t heads_, kv_heads_, ffn_;  // of this rank
  int64_t vocab_rows_;              // of this rank, padding included
  KvLayout kv_;
  RopeTable rope_;
  std::vector<std::unique_ptr<Buffer>> caches_;  // by layer of this stage
  Tensor tokens_, positions_, slots_, runs_, tables_;
  Buffers buffers_;
  Tensor head_x_, head_delta_, head_y_;
  Tensor logits_;  // f32 [tp, S, V / tp]
  Tensor best_;    // i32 [tp, 2, S]: ids, bits of f32 values
  std::vector<DecoderOp> plan_;
  int64_t sampled_ = 0;
  bool have_logits_ = false;
  double kernel_s_ = 0;
};

}  // namespace plait
