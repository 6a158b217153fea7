// The keys of MindFormers' sections, and those of a file that are not among them.
#include <algorithm>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "base/suggest.h"
#include "base/text.h"
#include "plan/readers/mindformers_reader.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

struct Section {
  const char* name;
  std::string_view keys;
};

// MindFormers docs, configuration file, and the configurations of its repository; names apart by
// blanks.
constexpr Section kSections[] = {
    {"parallel_config",
     "data_parallel model_parallel pipeline_stage context_parallel expert_parallel "
     "use_seq_parallel micro_batch_num vocab_emb_dp gradient_aggregation_group "
     "context_parallel_algo ulysses_degree_in_cp optimizer_shard optimizer_parallel mem_coeff "
     "recompute select_recompute expert_model_parallel mp_comm_recompute npu_nums_per_device "
     "seq_split_num only_trainable_params use_3d_tensor_parallel tp_x tp_y tp_z "
     "micro_batch_interleave_num"},
    {"parallel",
     "parallel_mode gradients_mean enable_alltoall full_batch dataset_strategy search_mode "
     "enable_parallel_optimizer parallel_optimizer_config strategy_ckpt_config "
     "strategy_ckpt_save_file strategy_ckpt_load_file loss_repeated_mean device_num global_rank "
     "gradient_fp32_sync auto_parallel_search_mode all_reduce_fusion_config pipeline_config "
     "comm_fusion group_ckpt_save_file force_fp32_communication parallel_optimizer_threshold"},
    {"runner_config",
     "epochs batch_size sink_mode sink_size gradient_accumulation_steps num_classes image_size "
     "initial_epoch initial_step has_trained_epoches has_trained_steps stop_step per_epoch_size "
     "scale_sense per_print_times"},
    {"recompute_config",
     "recompute select_recompute parallel_optimizer_comm_recompute mp_comm_recompute "
     "recompute_slice_activation select_recompute_exclude select_comm_recompute "
     "select_comm_recompute_exclude"},
    {"moe_config",
     "expert_num capacity_factor aux_loss_factor aux_loss_factors aux_loss_types "
     "num_experts_chosen routing_policy enable_sdrop use_fused_ops_topkrouter router_dense_type "
     "shared_expert_num use_shared_expert_gating group_wise_a2a comp_comm_parallel "
     "comp_comm_parallel_degree save_token_distribution cur_layer enable_cold_hot_expert "
     "update_step hot_expert_num cold_token_percent moe_module_name z_loss_factor "
     "balance_via_topk_bias topk_bias_update_rate first_k_dense_replace moe_intermediate_size "
     "norm_topk_prob callback_moe_droprate topk_method topk_group n_group npu_nums_per_device "
     "dispatch_global_max_bs use_gmm enable_gmm_safe_tokens use_fused_ops_permute "
     "use_gating_sigmoid routed_scaling_factor moe_z_loss_coeff use_allgather_dispatcher "
     "use_3d_tensor_parallel_for_moe"},
};

// Those of model_config that are read: each model adds its own, so only what looks like one of
// these is told.
constexpr std::string_view kModelKeys =
    "num_layers num_hidden_layers hidden_size num_heads num_attention_heads n_kv_heads "
    "num_key_value_heads vocab_size intermediate_size seq_length max_position_embedding "
    "max_position_embeddings "
    "ffn_dim_multiplier multiple_of head_dim qkv_has_bias tie_word_embeddings compute_dtype "
    "param_init_type use_flash_attention offset pp_interleave_num kv_lora_rank q_lora_rank "
    "qk_rope_head_dim qk_nope_head_dim v_head_dim n_routed_experts num_experts_per_tok "
    "n_shared_experts moe_intermediate_size moe_shared_expert_intermediate_size "
    "first_k_dense_replace";

// "num_layer" is meant to be "num_layers": at most two letters in one place differ.
bool is_misspelt(std::string_view key, std::string_view name) {
  constexpr size_t kLetters = 2;
  while (!key.empty() && !name.empty() && key.front() == name.front()) {
    key.remove_prefix(1);
    name.remove_prefix(1);
  }
  while (!key.empty() && !name.empty() && key.back() == name.back()) {
    key.remove_suffix(1);
    name.remove_suffix(1);
  }
  return std::max(key.size(), name.size()) <= kLetters;
}

}  // namespace

void MindFormersReader::list_unknown_keys(const YAML::Node& root) {
  constexpr size_t kMost = 100;
  const auto list = [&](const YAML::Node& section, const std::string& name, std::string_view keys,
                        bool only_alike) {
    if (!section.IsMap()) {
      return;
    }
    const std::vector<std::string> known = split(keys, ' ');
    for (const auto& entry : section) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      if (std::find(known.begin(), known.end(), key) != known.end() ||
          out_.unknown_flags.size() >= kMost) {
        continue;
      }
      const std::string nearest = nearest_name(key, known);
      if (!only_alike || (!nearest.empty() && is_misspelt(key, nearest))) {
        out_.unknown_flags.push_back({name + "." + key.substr(0, 60), nearest, where(entry.first)});
      }
    }
  };
  for (const Section& section : kSections) {
    list(yaml_child(root, section.name), section.name, section.keys, false);
  }
  list(model_section(root), "model_config", kModelKeys, true);
}

}  // namespace plait
