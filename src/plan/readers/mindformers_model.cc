// The model of a MindFormers run file, and which of its layers recompute.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "plan/readers/mindformers_reader.h"
#include "plan/readers/yaml_node.h"
#include "spec/model_catalog.h"

namespace plait {

YAML::Node MindFormersReader::model_section(const YAML::Node& root) {
  const YAML::Node inner = yaml_child(yaml_child(root, "model"), "model_config");
  return inner.IsMap() ? inner : yaml_child(root, "model_config");
}

// [3, 2, 0, 0], or a list of those for each chunk.
std::vector<int64_t> MindFormersReader::recompute_lists(const YAML::Node& lists) {
  std::vector<int64_t> layers;
  // False when there are enough: aliases make long lists of short files.
  const auto add = [&](const YAML::Node& one) {
    const auto count = one.IsScalar() ? parse_integer(one.Scalar()) : std::nullopt;
    layers.push_back(std::clamp<int64_t>(count.value_or(0), 0, 4096));
    return layers.size() < kMaxRanks;
  };
  for (const YAML::Node& entry : lists) {
    const bool more =
        entry.IsSequence() ? std::all_of(entry.begin(), entry.end(), add) : add(entry);
    if (!more) {
      break;
    }
  }
  return layers;
}

void MindFormersReader::read_recompute(const YAML::Node& root) {
  const YAML::Node config = yaml_child(root, "recompute_config");
  if (!config.IsMap()) {
    return;
  }
  const bool some = config["recompute"] && config["recompute"].IsSequence();
  const bool selective = flag(config, "select_recompute") ||
                         (config["select_recompute"] && !config["select_recompute"].IsScalar());
  if (flag(config, "recompute")) {
    out_.job.layout.recompute = Recompute::kFull;
  } else if (selective) {
    out_.job.layout.recompute = Recompute::kSelective;
  }
  if (some) {
    out_.job.layout.recompute = Recompute::kFull;
    out_.job.recompute_layers_of = recompute_lists(config["recompute"]);
  }
  if (selective) {
    // Single operators, by name: what that saves depends on them.
    out_.memory_is_upper_bound = true;
    out_.assumptions.push_back(
        {"select_recompute redoes single operators, which is not counted: memory is lower",
         where(config["select_recompute"])});
  }
  if (config["recompute"]) {
    mark("recompute", "recompute_config.recompute", config["recompute"]);
  }
}

void MindFormersReader::read_shape(const YAML::Node& config) {
  ModelConfig& model = out_.job.model;
  const auto take = [&](int64_t& field, const char* key, const char* name) {
    if (const auto value = size(config, key, "model_config")) {
      field = *value;
      mark(name, std::string("model_config.") + key, config[key]);
    }
  };
  model.family = ModelFamily::kCustom;
  take(model.num_layers, "num_layers", "num_layers");
  take(model.num_layers, "num_hidden_layers", "num_layers");
  // Each layer is walked, for each proposal again.
  constexpr int64_t kMostLayers = 4096;
  if (model.num_layers > kMostLayers) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: model_config has {} layers, at most {} are possible",
                out_.settings["num_layers"].where.text(), model.num_layers, kMostLayers);
  }
  take(model.hidden_size, "hidden_size", "hidden_size");
  take(model.num_heads, "num_heads", "num_heads");
  take(model.num_heads, "num_attention_heads", "num_heads");
  model.num_kv_heads = model.num_heads;
  take(model.num_kv_heads, "n_kv_heads", "num_kv_heads");
  take(model.num_kv_heads, "num_key_value_heads", "num_kv_heads");
  take(model.vocab_size, "vocab_size", "vocab_size");
  take(model.ffn_hidden_size, "intermediate_size", "ffn_hidden_size");
  take(out_.job.batch.seq_len, "seq_length", "seq_len");
  model.max_position_embeddings = out_.job.batch.seq_len;
  take(model.max_position_embeddings, "max_position_embedding", "max_position_embeddings");
  take(model.max_position_embeddings, "max_position_embeddings", "max_position_embeddings");
  model.max_position_embeddings = std::max(model.max_position_embeddings, out_.job.batch.seq_len);
  if (model.ffn_hidden_size == 0 && model.hidden_size > 0 &&
      model.hidden_size <= (int64_t{1} << 20)) {
    // Llama's rule: 2/3 of 4h times a factor, rounded up.
    const std::string factor_text = yaml_scalar(config, "ffn_dim_multiplier");
    const double factor = factor_text.empty() ? 1.0 : std::strtod(factor_text.c_str(), nullptr);
    const int64_t multiple = size(config, "multiple_of", "model_config").value_or(256);
    double wide = 4.0 * static_cast<double>(model.hidden_size);
    wide = factor_text.empty() ? wide : std::floor((std::clamp(factor, 0.0, 16.0) + 0.01) * wide);
    const auto two_thirds = static_cast<int64_t>(2 * wide / 3);
    model.ffn_hidden_size = (two_thirds + multiple - 1) / multiple * multiple;
  }
  model.head_dim =
      model.num_heads > 0 ? std::max<int64_t>(model.hidden_size / model.num_heads, 1) : 0;
  take(model.head_dim, "head_dim", "head_dim");
  take(model.mla.kv_lora_rank, "kv_lora_rank", "kv_lora_rank");
  if (model.mla.kv_lora_rank > 0) {
    take(model.mla.q_lora_rank, "q_lora_rank", "q_lora_rank");
    take(model.mla.rope_head_dim, "qk_rope_head_dim", "qk_rope_head_dim");
    take(model.mla.nope_head_dim, "qk_nope_head_dim", "qk_nope_head_dim");
    take(model.mla.v_head_dim, "v_head_dim", "v_head_dim");
    model.head_dim = std::max<int64_t>(model.mla.nope_head_dim + model.mla.rope_head_dim, 1);
    model.num_kv_heads = model.num_heads;
  }
  model.qkv_bias = flag(config, "qkv_has_bias");
  model.tie_word_embeddings = flag(config, "tie_word_embeddings");
  const std::string type = yaml_scalar(config, "compute_dtype");
  out_.job.dtype = type == "float32" ? DType::kF32 : type == "float16" ? DType::kF16 : DType::kBF16;
  const std::string params = yaml_scalar(config, "param_init_type");
  out_.job.params_16bit = params != "float32";  // LlamaConfig's default is float16
  out_.job.flash_attention = flag(config, "use_flash_attention");
  const int64_t chunks = size(config, "pp_interleave_num", "model_config").value_or(1);
  if (chunks > 1) {
    out_.job.layout.vpp = static_cast<int>(std::min<int64_t>(chunks, 4096));
    out_.job.layout.schedule = ScheduleKind::kInterleaved;
    mark("vpp", "model_config.pp_interleave_num", config["pp_interleave_num"]);
  }
}

// Layers of stage i: num_layers / pp + offset[i].
void MindFormersReader::read_offset(const YAML::Node& config) {
  if (!config.IsMap() || !config["offset"] || !config["offset"].IsSequence()) {
    return;
  }
  const YAML::Node offset = config["offset"];
  Layout& layout = out_.job.layout;
  std::vector<YAML::Node> rows;
  const bool nested = offset.size() > 0 && offset[0].IsSequence();
  if (nested) {
    for (const YAML::Node& row : offset) {
      rows.push_back(row);
    }
  } else {
    rows.push_back(offset);
  }
  mark("stage_layers", "model_config.offset", offset);
  const int64_t stages = static_cast<int64_t>(layout.pp) * layout.vpp;
  const int64_t even = out_.job.model.num_layers / stages;
  for (const YAML::Node& row : rows) {
    for (const YAML::Node& entry : row) {
      const auto value = entry.IsScalar() ? parse_integer(entry.Scalar()) : std::nullopt;
      if (!value || std::abs(*value) > 4096 || layout.stage_layers.size() > 65536) {
        throw_error(ErrorCode::kInvalidArgument,
                    "{}: model_config.offset must list whole numbers, "
                    "one for each stage",
                    where(offset).text());
      }
      layout.stage_layers.push_back(even + *value);
    }
  }
  const bool zeros = std::all_of(layout.stage_layers.begin(), layout.stage_layers.end(),
                                 [&](int64_t count) { return count == even; });
  if (zeros && out_.job.model.num_layers % stages == 0) {
    layout.stage_layers.clear();
  }
}

// moe_config, or in newer files model_config with the names of HF's configurations.
void MindFormersReader::read_moe(const YAML::Node& root) {
  const YAML::Node old = yaml_child(root, "moe_config");
  const YAML::Node model = model_section(root);
  const bool newer = model.IsMap() && model["n_routed_experts"];
  const YAML::Node config = newer ? model : old;
  const char* section = newer ? "model_config" : "moe_config";
  const char* count = newer ? "n_routed_experts" : "expert_num";
  MoeConfig& moe = out_.job.model.moe;
  const int64_t experts = size(config, count, section, 0).value_or(1);
  if (experts < 2) {
    return;
  }
  moe.num_experts = experts;
  mark("num_experts", fmt::format("{}.{}", section, count), config[count]);
  moe.experts_per_token =
      size(config, newer ? "num_experts_per_tok" : "num_experts_chosen", section).value_or(1);
  moe.ffn_hidden_size =
      size(config, "moe_intermediate_size", section).value_or(out_.job.model.ffn_hidden_size);
  const int64_t shared =
      size(config, newer ? "n_shared_experts" : "shared_expert_num", section, 0).value_or(0);
  moe.shared_ffn_hidden_size = std::min<int64_t>(shared, 1024) * moe.ffn_hidden_size;
  if (const auto wide = size(config, "moe_shared_expert_intermediate_size", section, 0)) {
    moe.shared_ffn_hidden_size = *wide;
  }
  moe.first_dense_layers = size(config, "first_k_dense_replace", section, 0).value_or(0);
}

void MindFormersReader::read_model(const YAML::Node& root) {
  const YAML::Node config = model_section(root);
  read_shape(config);
  ModelConfig& model = out_.job.model;
  out_.has_model = model.num_layers > 0 && model.hidden_size > 0 && model.num_heads > 0;
  if (!out_.has_model && !options_.model.empty()) {
    model = find_model(options_.model);
    out_.job.model_name = model_title(options_.model);
    out_.has_model = true;
  }
  if (!out_.has_model) {
    out_.assumptions.push_back(
        {"the shape of the model is not in the file: rules that need it are "
         "not checked; give it with --model",
         {out_.origin, 0}});
    const int64_t ranks =
        std::min<int64_t>(static_cast<int64_t>(out_.job.layout.tp) * out_.job.layout.cp, 1 << 14);
    model.num_layers = model.num_layers > 0 ? model.num_layers : out_.job.layout.pp;
    model.num_heads = model.num_kv_heads = ranks;
    model.hidden_size = 2 * ranks;
    model.head_dim = 2;
    model.ffn_hidden_size = out_.job.layout.tp;
  }
  if (model.vocab_size == 0) {
    model.vocab_size = 32000;
    if (out_.has_model) {
      out_.assumptions.push_back(
          {"model_config.vocab_size is absent: 32000 is assumed", {out_.origin, 0}});
    }
  }
  if (out_.job.batch.seq_len == 0) {
    out_.job.batch.seq_len = options_.seq_len > 0 ? options_.seq_len : 4096;
    out_.assumptions.push_back(
        {fmt::format("model_config.seq_length is absent: {} is assumed", out_.job.batch.seq_len),
         {out_.origin, 0}});
  }
  read_moe(root);
  read_offset(config);
  if (config.IsMap() && config["vocab_size"] &&
      !flag(yaml_child(root, "parallel_config"), "vocab_emb_dp") &&
      model.vocab_size % out_.job.layout.tp != 0) {
    problem(Severity::kError, "model_config.vocab_size", config["vocab_size"],
            fmt::format("must be a multiple of model_parallel = {} unless vocab_emb_dp is on",
                        out_.job.layout.tp),
            "vocab_emb_dp: True, or a padded vocab_size", kMindFormersDocs);
  }
}

}  // namespace plait
