#include "spec/parameter_counts.h"

#include "base/error.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

// Layer 0 is dense and layer 1 MoE, where the model has such layers.
ModelConfig two_layers(const ModelConfig& config) {
  ModelConfig sample = config;
  sample.num_layers = 2;
  sample.moe.first_dense_layers = 1;
  sample.moe.layer_period = 1;
  return sample;
}

void add(const ParamSpec& spec, const CountOptions& options, SectionCounts& counts) {
  if (spec.experts > 0) {
    CHECK_EQ(spec.experts % options.ep, 0);
    counts.expert += tp_shard(spec, options.etp, 0).count() * (spec.experts / options.ep);
  } else {
    counts.dense += tp_shard(spec, options.tp, 0).count();
  }
}

int64_t count_moe_layers(const ModelConfig& config) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    count += config.is_moe_layer(layer) ? 1 : 0;
  }
  return count;
}

}  // namespace

ModelCounts count_sections(const ModelConfig& config, const CountOptions& options) {
  const int64_t moe_layers = count_moe_layers(config);
  const bool moe = moe_layers > 0;
  const bool dense = moe_layers < config.num_layers;
  ModelCounts counts;
  for (const ParamSpec& spec : make_parameter_table(
           two_layers(config), {.tp = options.tp, .vocab_multiple = options.vocab_multiple})) {
    switch (spec.section) {
      case Section::kEmbedding:
        add(spec, options, counts.embedding);
        if (config.tie_word_embeddings && spec.placement == Placement::kRows) {
          add(spec, options, counts.tied_head);
        }
        break;
      case Section::kLayer:
        if (spec.layer == 0 && dense) {
          add(spec, options, counts.dense_layer);
        } else if (spec.layer == 1 && moe) {
          add(spec, options, counts.moe_layer);
        }
        break;
      case Section::kHead:
        add(spec, options, counts.head);
        break;
    }
  }
  return counts;
}

}  // namespace plait
