// A training job as the planner sees it: the model, how it is split, and what the stack that will
// run it keeps in memory and hides behind compute.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "spec/model_config.h"
#include "spec/validate.h"
#include "topology/layout.h"

namespace plait {

// The software that will run the job: decides bytes per parameter and buffers.
enum class Stack : uint8_t { kPlait, kMegatron, kMindSpeed, kDeepSpeed, kMindFormers };
const char* stack_name(Stack stack);  // "plait", "megatron", "mindspeed", ...
// Errors: kInvalidArgument with the names that exist.
Stack parse_stack(const std::string& name);
bool runs_on_ascend(Stack stack);

enum class CpAlgorithm : uint8_t { kRing, kUlysses };

// Low-rank adapters: the base model is frozen.
struct LoraConfig {
  int64_t rank = 0;  // 0: full training
  // Which of the layer's projections carry adapters.
  bool qkv = true, o = true, mlp = true;
};

struct TrainJob {
  std::string model_name;
  ModelConfig model;
  Layout layout;
  BatchConfig batch;
  Stack stack = Stack::kMegatron;
  DType dtype = DType::kBF16;    // compute precision
  int64_t vocab_multiple = 128;  // the vocabulary is padded to a multiple of this times tp

  int etp = 0;  // tensor parallelism inside an expert; 0: as tp
  CpAlgorithm cp_algorithm = CpAlgorithm::kRing;
  // Order of ranks, fastest first: tp, cp, dp, pp; with this tp, cp, pp, dp (Megatron's
  // use-tp-pp-dp-mapping): neighbouring stages share a server, and replicas are apart.
  bool pp_before_dp = false;
  bool flash_attention = true;
  double dropout = 0;  // > 0: masks are kept for backward
  // Under Recompute::kFull: layers of each virtual stage that recompute; -1: all of them
  // (Megatron's block method).
  int64_t recompute_layers = -1;
  // The same for each virtual stage, chunk by chunk (MindFormers' lists); empty: as above.
  std::vector<int64_t> recompute_layers_of = {};
  // The number above counts layers of a pipeline stage, its virtual stages together (MindSpeed's
  // enable-recompute-layers-per-pp-rank).
  bool recompute_per_stage = false;
  // Layers of each virtual stage whose MLP activation is redone in backward (MindSpeed's
  // recompute-activation-function); -1: all of them.
  int64_t recompute_activation_layers = 0;
  bool swap_attention = false;  // what attention keeps goes to the host and comes back

  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool overlap_tp_comm = false;    // MC2, CoC, userbuffers
  bool reuse_fp32_param = false;   // MindSpeed: the bf16 copy lives inside the f32 master
  bool offload_optimizer = false;  // states and step on the host
  int64_t grad_bytes = 0;          // bytes of one gradient element; 0: as the stack does
  bool params_16bit = false;       // MindFormers: param_init_type; no f32 copy is kept
  LoraConfig lora;
  int64_t bucket_bytes = 0;       // DeepSpeed: gradient buckets and weights gathered ahead
  int64_t comm_buffer_bytes = 0;  // per communicator and direction (HCCL_BUFFSIZE); 0: the default
  // Most that the framework allocates, communication buffers apart (MindSpore's max_device_memory);
  // 0: what the device has.
  double pool_bytes = 0;

  int expert_tp() const { return etp > 0 ? etp : layout.tp; }
};

}  // namespace plait
