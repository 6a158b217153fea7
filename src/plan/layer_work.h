// The operators of a transformer layer on one rank, with their work, their traffic and what they
// keep for backward: the list that the memory and the time of a plan are both added up from.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job.h"
#include "topology/collective_model.h"
#include "topology/mesh.h"

namespace plait {

enum class OpKind : uint8_t {
  kGemm,
  kAttention,  // fused, scores never stored
  kMemory,     // bound by memory bandwidth: norms, activations, softmax of unfused attention
};

// Per micro-batch on one rank, forward.
struct Operator {
  const char* name = "";
  OpKind kind = OpKind::kMemory;
  double flops = 0;
  double gemm_flops = 0;    // of one product, which decides its efficiency: flops / products
  double bytes = 0;         // traffic to device memory
  double weight_bytes = 0;  // of a product's weight
  double saved = 0;         // bytes kept for backward
  double backward = 2;      // backward's work and traffic as a multiple of forward's
  int launches = 1;
  bool core_attention = false;  // softmax and the products around it
  // What it keeps is an activation function's output, which that function's kept input gives again.
  bool keeps_activation = false;

  // What selective recomputation redoes.
  bool stores_scores() const { return core_attention && kind != OpKind::kAttention; }
};

enum class CommAxis : uint8_t { kTp, kCp, kEp, kDp, kPp };

// `bytes`: of the whole vector: what all_reduce reduces, what all_gather ends with, what
// reduce_scatter starts from, what one rank hands to all_to_all or sends.
struct Collective {
  const char* name = "";
  CommAxis axis = CommAxis::kTp;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double bytes = 0;
  double forward = 1;   // times run in forward
  double backward = 1;  // and in backward, recomputation apart
};

struct LayerWork {
  std::vector<Operator> operators;
  std::vector<Collective> collectives;
  double input_bytes = 0;  // the layer's input: all that full recomputation keeps

  double saved_bytes(Recompute recompute) const;
  double activation_bytes() const;  // the part of saved_bytes that keeps_activation
};

enum class LayerType : uint8_t { kDense, kMoe };

LayerWork layer_work(const TrainJob& job, LayerType type);

// Final norm, logits and loss.
LayerWork head_work(const TrainJob& job);

// Bytes that one pipeline stage hands to the next per micro-batch.
double boundary_bytes(const TrainJob& job);

}  // namespace plait
