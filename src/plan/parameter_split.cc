#include "plan/parameter_split.h"

#include <algorithm>

namespace plait {

std::vector<StageLayers> virtual_stage_layers(const TrainJob& job) {
  std::vector<StageLayers> stages;
  for (const LayerRange& range : split_layers(job.layout, job.model.num_layers)) {
    StageLayers layers;
    for (int64_t l = range.begin; l < range.end; ++l) {
      ++(job.model.is_moe_layer(l) ? layers.moe : layers.dense);
    }
    stages.push_back(layers);
  }
  return stages;
}

ModelCounts section_counts(const TrainJob& job) {
  const Layout& l = job.layout;
  // Where tp exceeds the kv heads each rank keeps a copy of one.
  ModelConfig model = job.model;
  model.num_kv_heads = std::max<int64_t>(model.num_kv_heads, l.tp);
  return count_sections(
      model,
      {.tp = l.tp, .ep = l.ep, .etp = job.expert_tp(), .vocab_multiple = job.vocab_multiple});
}

StageSplit stage_split(const TrainJob& job, const ModelCounts& counts) {
  const Layout& l = job.layout;
  const ModelConfig& model = job.model;
  StageSplit split;
  std::vector<StageParameters>& stages = split.parameters;
  stages.resize(static_cast<size_t>(l.pp));
  auto add = [](StageParameters& stage, const SectionCounts& section, int64_t times) {
    stage.dense += static_cast<double>(section.dense * times);
    stage.expert += static_cast<double>(section.expert * times);
  };
  split.layers = virtual_stage_layers(job);
  const std::vector<StageLayers>& layers = split.layers;
  for (size_t v = 0; v < layers.size(); ++v) {
    StageParameters& stage = stages[v % static_cast<size_t>(l.pp)];
    add(stage, counts.dense_layer, layers[v].dense);
    add(stage, counts.moe_layer, layers[v].moe);
  }
  add(stages.front(), counts.embedding, 1);
  add(stages.back(), counts.head, 1);
  if (l.pp > 1) {
    add(stages.back(), counts.tied_head, 1);
  }
  const auto hidden = static_cast<double>(model.hidden_size);
  const double up =
      hidden * static_cast<double>(model.ffn_hidden_size) * (model.gated_mlp ? 2 : 1) / l.tp;
  const double table = hidden * static_cast<double>(model.vocab_size) / l.tp;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const bool end = stage == 0 || stage + 1 == stages.size();
    stages[stage].largest = end ? std::max(up, table) : up;
  }
  return split;
}

double recomputed_layers(const TrainJob& job, size_t virtual_stage, double layers) {
  if (job.layout.recompute != Recompute::kFull) {
    return 0;
  }
  if (virtual_stage < job.recompute_layers_of.size()) {
    return std::min(layers, static_cast<double>(job.recompute_layers_of[virtual_stage]));
  }
  if (job.recompute_layers < 0) {
    return layers;
  }
  const auto count = static_cast<double>(job.recompute_layers);
  return std::min(layers, job.recompute_per_stage ? count / job.layout.vpp : count);
}

double dense_shards(const TrainJob& job) {
  return job.layout.dp * job.layout.cp;
}

double expert_shards(const TrainJob& job) {
  const double etp = job.expert_tp();
  const double stage_ranks = static_cast<double>(job.layout.dp) * job.layout.cp * job.layout.tp;
  return std::max(1.0, stage_ranks / (etp * job.layout.ep));
}

}  // namespace plait
