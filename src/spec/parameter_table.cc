#include "spec/parameter_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/round_up.h"

namespace plait {
namespace {

// Elements to which parameter groups are aligned: 64 bytes of f32.
constexpr int64_t kAlign = 16;

constexpr const char* kRouterBias = "gate.e_score_correction_bias";

// Collects specs of one section and layer.
class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, std::vector<ParamSpec>& table)
      : config_(config), table_(table) {}

  void enter(Section section, int64_t layer) {
    section_ = section;
    layer_ = layer;
  }

  // What follows stands for this many experts; 0: for none.
  void enter_experts(int64_t experts) { experts_ = experts; }

  ParamSpec& matrix(const std::string& name, Placement placement, std::vector<int64_t> shape) {
    ParamSpec spec;
    spec.name = name;
    spec.shape = std::move(shape);
    spec.placement = placement;
    spec.section = section_;
    spec.layer = layer_;
    spec.padded_rows = spec.shape[0];
    spec.weight_decay = spec.shape.size() > 1;
    spec.experts = experts_;
    table_.push_back(std::move(spec));
    return table_.back();
  }

  // Replicated, and applied to this rank's tokens.
  void replicated(const std::string& name, std::vector<int64_t> shape) {
    matrix(name, Placement::kReplicated, std::move(shape)).partial_gradient =
        PartialGradient::kWithSequenceParallel;
  }

  void scale(const std::string& name, int64_t size, PartialGradient partial) {
    ParamSpec& spec = matrix(name, Placement::kReplicated, {size});
    spec.init = Init::kOnes;
    spec.partial_gradient = partial;
  }

  void bias(const std::string& name, Placement placement, int64_t size) {
    ParamSpec& spec = matrix(name, placement, {size});
    spec.init = Init::kZeros;
    if (placement == Placement::kReplicated) {
      spec.partial_gradient = PartialGradient::kWithSequenceParallel;
    }
  }

  // The model's norm over the hidden size.
  void norm(const std::string& prefix) {
    scale(prefix + ".weight", config_.hidden_size, PartialGradient::kWithSequenceParallel);
    if (config_.norm == NormType::kLayer) {
      bias(prefix + ".bias", Placement::kReplicated, config_.hidden_size);
    }
  }

  // Output-sharded projections that kernels read as one matrix: all weights, then all biases.
  void fused(const std::string& prefix, const std::vector<std::pair<std::string, int64_t>>& parts,
             bool with_bias) {
    for (const auto& [name, rows] : parts) {
      matrix(prefix + name + ".weight", Placement::kRows, {rows, config_.hidden_size})
          .joins_previous = name != parts.front().first;
    }
    if (!with_bias) {
      return;
    }
    for (const auto& [name, rows] : parts) {
      bias(prefix + name + ".bias", Placement::kRows, rows);
      table_.back().joins_previous = name != parts.front().first;
    }
  }

  // The input-sharded projection back to the hidden size.
  void down(const std::string& prefix, int64_t inputs, bool with_bias) {
    matrix(prefix + ".weight", Placement::kColumns, {config_.hidden_size, inputs});
    if (with_bias) {
      bias(prefix + ".bias", Placement::kReplicated, config_.hidden_size);
    }
  }

 private:
  const ModelConfig& config_;
  std::vector<ParamSpec>& table_;
  Section section_ = Section::kEmbedding;
  int64_t layer_ = -1;
  int64_t experts_ = 0;
};

void add_attention(const ModelConfig& config, const std::string& prefix, TableBuilder& builder) {
  const int64_t q_rows = config.num_heads * config.head_dim;
  const int64_t kv_rows = config.num_kv_heads * config.head_dim;
  builder.fused(prefix, {{"q_proj", q_rows}, {"k_proj", kv_rows}, {"v_proj", kv_rows}},
                config.qkv_bias);
  if (config.qk_norm) {
    builder.scale(prefix + "q_norm.weight", config.head_dim, PartialGradient::kAlways);
    builder.scale(prefix + "k_norm.weight", config.head_dim, PartialGradient::kAlways);
  }
  builder.down(prefix + "o_proj", q_rows, config.o_bias);
}

// The compressions are replicated over tp, what unfolds them is split by heads.
void add_latent_attention(const ModelConfig& config, const std::string& prefix,
                          TableBuilder& builder) {
  const MlaConfig& mla = config.mla;
  const int64_t q_rows = config.num_heads * (mla.nope_head_dim + mla.rope_head_dim);
  if (mla.q_lora_rank > 0) {
    builder.replicated(prefix + "q_a_proj.weight", {mla.q_lora_rank, config.hidden_size});
    builder.scale(prefix + "q_a_layernorm.weight", mla.q_lora_rank,
                  PartialGradient::kWithSequenceParallel);
    builder.matrix(prefix + "q_b_proj.weight", Placement::kRows, {q_rows, mla.q_lora_rank});
  } else {
    builder.matrix(prefix + "q_proj.weight", Placement::kRows, {q_rows, config.hidden_size});
  }
  builder.replicated(prefix + "kv_a_proj_with_mqa.weight",
                     {mla.kv_lora_rank + mla.rope_head_dim, config.hidden_size});
  builder.scale(prefix + "kv_a_layernorm.weight", mla.kv_lora_rank,
                PartialGradient::kWithSequenceParallel);
  builder.matrix(prefix + "kv_b_proj.weight", Placement::kRows,
                 {config.num_heads * (mla.nope_head_dim + mla.v_head_dim), mla.kv_lora_rank});
  builder.down(prefix + "o_proj", config.num_heads * mla.v_head_dim, config.o_bias);
}

void add_mlp(const ModelConfig& config, const std::string& prefix, int64_t width,
             TableBuilder& builder) {
  if (config.gated_mlp) {
    builder.fused(prefix, {{"gate_proj", width}, {"up_proj", width}}, config.mlp_bias);
  } else {
    builder.fused(prefix, {{"up_proj", width}}, config.mlp_bias);
  }
  builder.down(prefix + "down_proj", width, config.mlp_bias);
}

void add_experts(const ModelConfig& config, const std::string& prefix, TableBuilder& builder) {
  const MoeConfig& moe = config.moe;
  builder.replicated(prefix + "gate.weight", {moe.num_experts, config.hidden_size});
  if (moe.router_bias) {
    builder.bias(prefix + kRouterBias, Placement::kReplicated, moe.num_experts);
  }
  builder.enter_experts(moe.num_experts);
  add_mlp(config, prefix + "experts.*.", moe.ffn_hidden_size, builder);
  builder.enter_experts(0);
  if (moe.shared_ffn_hidden_size > 0) {
    add_mlp(config, prefix + "shared_experts.", moe.shared_ffn_hidden_size, builder);
  }
  if (moe.shared_gate) {
    builder.replicated(prefix + "shared_expert_gate.weight", {1, config.hidden_size});
  }
}

void add_layer(const ModelConfig& config, int64_t layer, TableBuilder& builder) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  builder.enter(Section::kLayer, layer);
  builder.norm(prefix + "input_layernorm");
  if (config.mla.kv_lora_rank > 0) {
    add_latent_attention(config, prefix + "self_attn.", builder);
  } else {
    add_attention(config, prefix + "self_attn.", builder);
  }
  builder.norm(prefix + "post_attention_layernorm");
  if (config.is_moe_layer(layer)) {
    add_experts(config, prefix + "mlp.", builder);
  } else {
    add_mlp(config, prefix + "mlp.", config.ffn_hidden_size, builder);
  }
}

// A parameter waiting for its place in the flat buffer.
struct Pending {
  LocalParam param;
  int64_t unit = 0;  // see Bucket::ready_after
  int order = 0;     // 0 kAlways, 1 kWithSequenceParallel, 2 the rest
  bool joins_previous = false;
  bool tied = false;
};

// The parameters of one chunk, in storage order.
std::vector<Pending> chunk_params(const std::vector<ParamSpec>& table, const ModelConfig& config,
                                  const Layout& layout, const FlatLayoutOptions& options,
                                  int chunk) {
  const int virtual_stage = chunk * layout.pp + options.pipeline_stage;
  const bool first = virtual_stage == 0;
  const bool last = virtual_stage == layout.num_virtual_stages() - 1;
  const LayerRange range =
      split_layers(layout, config.num_layers)[static_cast<size_t>(virtual_stage)];
  std::vector<Pending> pending;
  for (size_t i = 0; i < table.size(); ++i) {
    const ParamSpec& spec = table[i];
    Pending entry;
    entry.param.spec_index = static_cast<int>(i);
    entry.param.shard = tp_shard(spec, layout.tp, options.tp_rank);
    entry.param.chunk = chunk;
    entry.joins_previous = spec.joins_previous;
    entry.order = spec.partial_gradient == PartialGradient::kAlways                 ? 0
                  : spec.partial_gradient == PartialGradient::kWithSequenceParallel ? 1
                                                                                    : 2;
    bool here = false;
    switch (spec.section) {
      case Section::kEmbedding: {
        const bool tied = config.tie_word_embeddings && layout.pp > 1;
        entry.tied = tied;
        entry.param.tied_copy = tied && last;
        here = first || entry.param.tied_copy;
        entry.unit = entry.param.tied_copy ? config.num_layers : -1;
        break;
      }
      case Section::kLayer:
        here = spec.layer >= range.begin && spec.layer < range.end;
        entry.unit = spec.layer;
        break;
      case Section::kHead:
        here = last;
        entry.unit = config.num_layers;
        break;
    }
    if (entry.order < 2) {
      entry.unit = -1;
    }
    if (here) {
      pending.push_back(entry);
    }
  }
  // Partial gradients first; a tied copy behind the layers that precede it in the model.
  std::stable_sort(pending.begin(), pending.end(), [](const Pending& a, const Pending& b) {
    return std::pair(a.order, a.unit) < std::pair(b.order, b.unit);
  });
  return pending;
}

// Indices at which buckets begin, found from the back so that what backward finishes first fills
// whole buckets.
std::vector<size_t> bucket_starts(const std::vector<Pending>& pending, int64_t bucket_count) {
  std::vector<size_t> starts;
  int64_t count = 0;
  size_t end = pending.size();
  for (size_t i = pending.size(); i-- > 0;) {
    count += pending[i].param.shard.count();
    const bool tied_edge = i > 0 && pending[i].tied != pending[i - 1].tied;
    const bool full = count >= bucket_count && !pending[i].joins_previous;
    if (i == 0 || tied_edge || full) {
      starts.push_back(i);
      end = i;
      count = 0;
    }
  }
  CHECK_EQ(end, size_t{0});
  std::reverse(starts.begin(), starts.end());
  return starts;
}

void place_chunk(std::vector<Pending>& pending, const Layout& layout, int64_t bucket_count,
                 FlatLayout& flat) {
  if (pending.empty()) {
    return;
  }
  std::vector<size_t> starts = bucket_starts(pending, bucket_count);
  starts.push_back(pending.size());
  const int chunk = pending.front().param.chunk;
  PartialRange partial{.begin = flat.count, .end = flat.count, .chunk = chunk};
  for (size_t b = 0; b + 1 < starts.size(); ++b) {
    Bucket bucket{.begin = flat.count, .end = 0, .chunk = chunk};
    bucket.ready_after = pending[starts[b]].unit;
    bucket.tied = pending[starts[b]].tied;
    for (size_t i = starts[b]; i < starts[b + 1]; ++i) {
      Pending& entry = pending[i];
      if (!entry.joins_previous) {
        flat.count = round_up(flat.count, kAlign);
      }
      entry.param.offset = flat.count;
      flat.count += entry.param.shard.count();
      bucket.ready_after = std::min(bucket.ready_after, entry.unit);
      if (entry.order == 0 || (entry.order == 1 && layout.sp)) {
        partial.end = flat.count;
      }
      flat.params.push_back(entry.param);
    }
    flat.count = round_up(flat.count - bucket.begin, kAlign * layout.dp) + bucket.begin;
    bucket.end = flat.count;
    flat.buckets.push_back(bucket);
  }
  if (partial.end > partial.begin && layout.tp > 1) {
    flat.partial_ranges.push_back(partial);
  }
}

}  // namespace

int64_t ParamSpec::count() const {
  int64_t count = std::max<int64_t>(experts, 1);
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

std::vector<ParamSpec> make_parameter_table(const ModelConfig& config,
                                            const TableOptions& options) {
  std::vector<ParamSpec> table;
  TableBuilder builder(config, table);
  const int64_t padded = round_up(config.vocab_size, options.vocab_multiple * options.tp);
  const std::vector<int64_t> vocab_shape = {config.vocab_size, config.hidden_size};
  builder.enter(Section::kEmbedding, -1);
  builder.matrix("model.embed_tokens.weight", Placement::kRows, vocab_shape).padded_rows = padded;
  if (config.position == PositionType::kLearned) {
    builder.replicated("model.embed_positions.weight",
                       {config.max_position_embeddings, config.hidden_size});
  }
  if (config.embedding_norm) {
    builder.norm("model.embed_layernorm");
  }
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    add_layer(config, layer, builder);
  }
  builder.enter(Section::kHead, -1);
  builder.norm("model.norm");
  if (!config.tie_word_embeddings) {
    builder.matrix("lm_head.weight", Placement::kRows, vocab_shape).padded_rows = padded;
  }
  return table;
}

int64_t count_parameters(const std::vector<ParamSpec>& table) {
  int64_t count = 0;
  for (const ParamSpec& spec : table) {
    count += spec.count();
  }
  return count;
}

int64_t count_active_parameters(const std::vector<ParamSpec>& table, const ModelConfig& config) {
  int64_t count = 0;
  for (const ParamSpec& spec : table) {
    if (spec.name.ends_with(kRouterBias)) {
      continue;
    }
    count += spec.experts > 0 ? spec.count() / spec.experts * config.moe.experts_per_token
                              : spec.count();
  }
  return count;
}

int64_t kv_bytes_per_token(const ModelConfig& config, int64_t element_bytes) {
  const int64_t elements = config.mla.kv_lora_rank > 0
                               ? config.mla.kv_lora_rank + config.mla.rope_head_dim
                               : 2 * config.num_kv_heads * config.head_dim;
  return config.num_layers * elements * element_bytes;
}

Shard tp_shard(const ParamSpec& spec, int tp, int tp_rank) {
  Shard shard{.row_begin = 0, .rows = spec.padded_rows, .col_begin = 0, .cols = spec.cols()};
  if (spec.placement == Placement::kRows) {
    CHECK_EQ(spec.padded_rows % tp, 0);
    shard.rows = spec.padded_rows / tp;
    shard.row_begin = shard.rows * tp_rank;
  } else if (spec.placement == Placement::kColumns) {
    CHECK_EQ(spec.cols() % tp, 0);
    shard.cols = spec.cols() / tp;
    shard.col_begin = shard.cols * tp_rank;
  }
  return shard;
}

FlatLayout make_flat_layout(const std::vector<ParamSpec>& table, const ModelConfig& config,
                            const Layout& layout, const FlatLayoutOptions& options) {
  FlatLayout flat;
  for (int chunk = 0; chunk < layout.vpp; ++chunk) {
    std::vector<Pending> pending = chunk_params(table, config, layout, options, chunk);
    place_chunk(pending, layout, options.bucket_count, flat);
  }
  return flat;
}

}  // namespace plait
