// The closed forms of Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large
// Transformer Models", arXiv:2205.05198), with the paper's own simplifications: P = 12 L h^2
// without embeddings, biases and norms. The planner counts from the parameter table and the
// operator list; these are what published figures were made with.
#pragma once

#include <cstdint>

namespace plait {

struct PaperShape {
  int64_t layers = 0, hidden = 0, heads = 0, seq = 0, micro_batch = 1;
  int tp = 1, pp = 1, vpp = 1;
};

// 18 bytes a parameter on one rank.
double paper_state_bytes(const PaperShape& shape);

// Table 2, tensor parallel: s b h (10 + 24 / t + 5 a s / (h t)) a layer, L (1 + (p - 1) / (p v))
// layers in flight on the first stage.
double paper_activation_bytes(const PaperShape& shape);

// Table 2, tensor and sequence parallel with selective recomputation: s b h 34 / t a layer.
double paper_selective_bytes(const PaperShape& shape);

}  // namespace plait
