// The chunks of a transformer that one rank holds, as the pipeline runner drives them: embedding,
// layers, final norm, head and loss.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/transformer_layer.h"
#include "parallel/data/gradient_reducer.h"
#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"
#include "parallel/pipeline/runner.h"
#include "parallel/tensor/vocab_embedding.h"
#include "parallel/tensor/vocab_loss.h"
#include "parallel/zero/sharded_adamw.h"

namespace plait {

// Token ids and targets of one micro-batch on the host, i32 [T]; negative targets are masked.
struct MicroBatch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
};

struct TransformerShape {
  int64_t rows = 1;  // of a micro-batch
  int64_t seq_len = 0;
  DType dtype = DType::kF32;
  int64_t tokens() const { return rows * seq_len; }
};

class Transformer final : public PipelineChunks {
 public:
  // All arguments must outlive the model.
  Transformer(const ModelConfig& config, const ParallelContext& context,
              const TransformerShape& shape, ParameterStore& store);

  // Called around the parts of a step; both may be empty.
  struct Hooks {
    // Before the weights of `unit` of `chunk` are read (see Bucket::ready_after).
    std::function<void(int chunk, int64_t unit)> before_unit;
    // Backward of `chunk` has completed the gradients of units >= `unit`.
    std::function<void(int chunk, int64_t unit)> unit_complete;
    std::function<void(int chunk)> chunk_complete;
  };
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // The data of the next run: all micro-batches of this replica (the same on every rank of it).
  // grad_scale multiplies the gradient of the summed loss; 0 only evaluates.
  void set_batch(std::span<const MicroBatch> batch, float grad_scale);

  // Sum of the loss over the unmasked tokens of the batch; zero on ranks without the head. Valid
  // after the run.
  double loss_sum();

  // Receives the logits of each micro-batch of the next runs: f [T, padded V / tp], before the loss
  // overwrites them. Head ranks only.
  void set_logits_hook(std::function<void(int microbatch, const Tensor& logits)> hook) {
    logits_hook_ = std::move(hook);
  }

  // Receives the output of every unit of the next runs: -1 the embedding, layer l, num_layers the
  // logits. For diagnosis: it costs a synchronisation where it looks.
  void set_output_hook(std::function<void(int64_t unit, const Tensor& output)> hook) {
    output_hook_ = std::move(hook);
  }

  // Whether all elements are finite. Waits for the device.
  static bool is_finite(const Tensor& tensor);

  Tensor forward(int chunk, int microbatch, const Tensor& input) override;
  Tensor backward(int chunk, int microbatch, const Tensor& grad_output, bool last) override;
  void reduce(int chunk) override;

 private:
  struct InFlight {
    std::vector<SavedTensors> layers;
    Tensor grad_hidden;  // head chunk: the gradient of the last layer's output
  };
  struct Chunk {
    LayerRange range;
    bool first = false;
    bool last = false;
    std::vector<TransformerLayer> layers;
    std::vector<InFlight> in_flight;  // by micro-batch
  };
  // The head's backward runs with its forward: logits live for one micro-batch only, whatever the
  // schedule. Returns the gradient of hidden_TsD, or nothing in evaluation.
  Tensor run_head(int microbatch, const Tensor& hidden_TsD);

  const ModelConfig& config_;
  TransformerShape shape_;
  TensorRegion region_;
  VocabParallelEmbedding embedding_;
  VocabParallelCrossEntropy cross_entropy_;
  ParameterStore& store_;
  RopeTable rope_;
  std::vector<Chunk> chunks_;
  Parameter embedding_param_, final_norm_, head_;
  Hooks hooks_;
  std::function<void(int, const Tensor&)> logits_hook_;
  std::function<void(int64_t, const Tensor&)> output_hook_;
  std::vector<Tensor> tokens_;   // i32 [T] by micro-batch, on the first stage
  std::vector<Tensor> targets_;  // on the last
  float grad_scale_ = 0;
  Tensor loss_;
};

}  // namespace plait
