// Random models and layouts that fit each other.
#pragma once

#include <random>

#include "spec/model_config.h"
#include "topology/layout.h"

namespace plait::test {

struct RandomRun {
  ModelConfig model;
  Layout layout;
};

// Small sizes; every feature of the families and every part of the layout appears.
inline RandomRun random_run(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  RandomRun run;
  Layout& layout = run.layout;
  layout.dp = static_cast<int>(between(1, 5));
  layout.tp = static_cast<int>(between(1, 4));
  layout.pp = static_cast<int>(between(1, 4));
  layout.vpp = layout.pp > 1 ? static_cast<int>(between(1, 3)) : 1;
  layout.schedule = layout.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
  layout.sp = layout.tp > 1 && random() % 2 == 0;
  layout.zero = static_cast<int>(between(0, 1));
  layout.recompute = static_cast<Recompute>(between(0, 2));

  ModelConfig& model = run.model;
  model.family = static_cast<ModelFamily>(between(0, 2));
  model.vocab_size = between(1, 90);
  model.hidden_size = between(1, 40);
  model.num_kv_heads = layout.tp * between(1, 2);
  model.num_heads = model.num_kv_heads * between(1, 3);
  model.head_dim = 2 * between(1, 5);
  model.ffn_hidden_size = layout.tp * between(1, 13);
  model.max_position_embeddings = 64;
  model.tie_word_embeddings = random() % 2 == 0;
  model.qk_norm = model.family == ModelFamily::kQwen3;
  model.qkv_bias = model.family == ModelFamily::kQwen2 || random() % 2 == 0;
  model.o_bias = model.family != ModelFamily::kQwen2 && model.qkv_bias;
  model.mlp_bias = model.family == ModelFamily::kLlama && random() % 2 == 0;

  const int stages = layout.num_virtual_stages();
  if (random() % 2 == 0) {
    model.num_layers = stages * between(1, 3);
    return run;
  }
  for (int v = 0; v < stages; ++v) {
    layout.stage_layers.push_back(between(0, 3));
  }
  ++layout.stage_layers[static_cast<size_t>(between(0, stages - 1))];
  for (const int64_t count : layout.stage_layers) {
    model.num_layers += count;
  }
  return run;
}

}  // namespace plait::test
