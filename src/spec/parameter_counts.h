// How many parameters of each part of a model one rank holds: the parameter table, added up.
#pragma once

#include <cstdint>

#include "spec/model_config.h"

namespace plait {

// Elements on one rank. Experts are counted apart: they are sharded over other groups, and so are
// their gradients and optimizer states.
struct SectionCounts {
  int64_t dense = 0;
  int64_t expert = 0;
  int64_t total() const { return dense + expert; }
};

struct ModelCounts {
  SectionCounts embedding;    // with learned positions and the embedding's norm
  SectionCounts dense_layer;  // a layer whose MLP is dense; zero if the model has none
  SectionCounts moe_layer;    // zero if the model has none
  SectionCounts head;         // the final norm, and the head if it is not tied
  // What the last stage of a pipeline holds besides: the copy of a tied embedding, padding
  // included. Zero if the head is not tied.
  SectionCounts tied_head;
};

struct CountOptions {
  int tp = 1;                  // of everything but experts
  int ep = 1;                  // over which experts are spread
  int etp = 1;                 // over which each expert is split
  int64_t vocab_multiple = 1;  // see TableOptions
};

// Cost: a table of two layers, whatever the model's depth and number of experts. Requires sizes
// that the degrees divide: heads, kv heads, ffn_hidden_size and the shared experts' by tp, the
// experts by ep, their ffn_hidden_size by etp.
ModelCounts count_sections(const ModelConfig& config, const CountOptions& options);

}  // namespace plait
