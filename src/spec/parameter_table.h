// The parameter table: every parameter of a model with its HF name, logical shape and how it is
// split. It drives initialisation, storage, checkpoints, HF import and export and memory estimates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model_config.h"
#include "topology/layout.h"

namespace plait {

// How a parameter is split over the tp group.
enum class Placement : uint8_t {
  kReplicated,
  kRows,     // dim 0: output features, heads, vocabulary
  kColumns,  // dim 1: input features
};

// When the gradient that one tp rank computes is only its part of the sum.
enum class PartialGradient : uint8_t {
  kNever,
  kWithSequenceParallel,  // replicated, applied to this rank's tokens: norms, row-parallel biases
  kAlways,                // replicated, applied to this rank's heads: QK-norm
};

enum class Init : uint8_t { kNormal, kOnes, kZeros };

// Which part of the model a parameter belongs to.
enum class Section : uint8_t { kEmbedding, kLayer, kHead };

struct ParamSpec {
  // As in HF checkpoints for the families that plait trains, in the same style for the others.
  std::string name;
  std::vector<int64_t> shape;  // logical, unpadded: 1 or 2 dims
  Placement placement = Placement::kReplicated;
  PartialGradient partial_gradient = PartialGradient::kNever;
  Init init = Init::kNormal;
  Section section = Section::kLayer;
  int64_t layer = -1;        // of kLayer
  int64_t padded_rows = 0;   // dim 0 after vocabulary padding; shape[0] elsewhere
  bool weight_decay = true;  // two or more dims
  // Stored directly behind its predecessor in the table: kernels read both as one matrix.
  bool joins_previous = false;
  // n > 0: the spec stands for n equal matrices, one an expert ("mlp.experts.*.up_proj.weight"),
  // that are spread over the ep group; `shape` and tp_shard are those of one, split over the tp
  // group of experts. 0: no expert.
  int64_t experts = 0;

  int64_t count() const;  // logical elements, of all experts
  int64_t cols() const { return shape.size() > 1 ? shape[1] : 1; }
};

// Vocabulary rows are padded to a multiple of `vocab_multiple` * tp, with rows that stay zero and
// that the loss does not see.
struct TableOptions {
  int tp = 1;
  int64_t vocab_multiple = 1;
};

// All parameters in model order: embedding, layers, final norm, head (absent when tied).
std::vector<ParamSpec> make_parameter_table(const ModelConfig& config, const TableOptions& options);

// Sum over the table, without padding.
int64_t count_parameters(const std::vector<ParamSpec>& table);

// The parameters that one token meets: experts_per_token of the experts, all of the rest but the
// bias of the router, which takes part in the choice alone.
int64_t count_active_parameters(const std::vector<ParamSpec>& table, const ModelConfig& config);

// Bytes that the KV cache of all layers keeps of one token, with elements of `element_bytes`; under
// multi-head latent attention the compressed vector and the rotated key.
int64_t kv_bytes_per_token(const ModelConfig& config, int64_t element_bytes);

// The rectangle of a parameter that one tp rank stores: rows [row_begin, row_begin + rows) and
// columns likewise, in padded coordinates; row-major.
struct Shard {
  int64_t row_begin = 0, rows = 0;
  int64_t col_begin = 0, cols = 0;
  int64_t count() const { return rows * cols; }
};
Shard tp_shard(const ParamSpec& spec, int tp, int tp_rank);

// One parameter in a rank's flat storage.
struct LocalParam {
  int spec_index = 0;  // into the table
  Shard shard;
  int64_t offset = 0;  // elements from the start of the flat buffer
  bool tied_copy =
      false;      // the last stage's copy of a tied embedding: not counted in norms, not saved
  int chunk = 0;  // virtual stage on this pipeline stage
};

// A contiguous range of the flat buffer that is reduced as one message. Its length is a multiple of
// 16 * dp; part r of it belongs to dp rank r under ZeRO-1.
struct Bucket {
  int64_t begin = 0, end = 0;
  int chunk = 0;
  // Backward completes units in falling order: head = num_layers, layer l = l, everything else =
  // -1. The bucket is complete after this unit.
  int64_t ready_after = 0;
  // Holds the tied embedding of a pipeline with several stages: reduced over the embedding group
  // (first and last stage) before the dp group.
  bool tied = false;
};

// A contiguous range of replicated parameters whose gradients are summed over the tp group first.
struct PartialRange {
  int64_t begin = 0, end = 0;
  int chunk = 0;
};

// Storage of one pipeline stage on one tp rank: chunk by chunk, and in each chunk first the
// parameters with partial gradients (kAlways, then kWithSequenceParallel), then the embedding, the
// layers, the head. Parameters that kernels read as one matrix (q k v; gate up; their biases) are
// adjacent.
struct FlatLayout {
  std::vector<LocalParam> params;
  std::vector<Bucket> buckets;  // ascending
  std::vector<PartialRange> partial_ranges;
  int64_t count = 0;  // elements, padding included

  // Elements of this dp rank's ZeRO-1 shard.
  int64_t shard_count(int dp) const { return count / dp; }
};

struct FlatLayoutOptions {
  int pipeline_stage = 0;
  int tp_rank = 0;
  int64_t bucket_count = 4 << 20;  // elements after which a bucket closes
};
FlatLayout make_flat_layout(const std::vector<ParamSpec>& table, const ModelConfig& config,
                            const Layout& layout, const FlatLayoutOptions& options);

}  // namespace plait
