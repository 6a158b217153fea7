// Jobs and clusters that several planner tests use.
#pragma once

#include "plan/job.h"
#include "topology/cluster.h"

namespace plait {

// A GPT of Korthikanti et al. 2022, table 3: fp16, dropout, scores stored.
inline TrainJob gpt_job(int64_t layers, int64_t hidden, int64_t heads) {
  TrainJob job;
  ModelConfig& m = job.model;
  m.num_layers = layers;
  m.hidden_size = hidden;
  m.num_heads = m.num_kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden_size = 4 * hidden;
  m.gated_mlp = false;
  m.vocab_size = 51200;
  m.max_position_embeddings = 2048;
  m.norm = NormType::kLayer;
  m.position = PositionType::kLearned;
  m.qkv_bias = m.o_bias = m.mlp_bias = true;
  m.tie_word_embeddings = true;
  job.model_name = "gpt";
  job.flash_attention = false;
  job.dropout = 0.1;
  job.vocab_multiple = 1;
  job.batch = {.global_batch_size = 8, .micro_batch_size = 1, .seq_len = 2048};
  return job;
}

// A small Llama that fits anywhere.
inline TrainJob small_job() {
  TrainJob job;
  ModelConfig& m = job.model;
  m.num_layers = 8;
  m.hidden_size = 1024;
  m.num_heads = 16;
  m.num_kv_heads = 8;
  m.head_dim = 64;
  m.ffn_hidden_size = 2816;
  m.vocab_size = 32000;
  m.max_position_embeddings = 4096;
  job.model_name = "small";
  job.vocab_multiple = 1;
  job.batch = {.global_batch_size = 32, .micro_batch_size = 1, .seq_len = 2048};
  return job;
}

}  // namespace plait
