#include "plan/readers/mindformers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/suggest.h"
#include "plan/readers/yaml_node.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

constexpr const char* kDocs = "MindFormers docs, configuration file (parallel_config)";
constexpr const char* kMemoryDocs = "MindSpore documentation, max_device_memory";
constexpr size_t kMostYamlBytes = 1 << 20;
constexpr int64_t kMostYamlValue = int64_t{1} << 31;

constexpr std::string_view kParallelConfigKeys[] = {"data_parallel",
                                                    "model_parallel",
                                                    "pipeline_stage",
                                                    "context_parallel",
                                                    "expert_parallel",
                                                    "use_seq_parallel",
                                                    "micro_batch_num",
                                                    "vocab_emb_dp",
                                                    "gradient_aggregation_group",
                                                    "context_parallel_algo",
                                                    "ulysses_degree_in_cp",
                                                    "optimizer_shard",
                                                    "optimizer_parallel",
                                                    "mem_coeff",
                                                    "recompute",
                                                    "select_recompute",
                                                    "expert_model_parallel",
                                                    "mp_comm_recompute",
                                                    "npu_nums_per_device",
                                                    "seq_split_num",
                                                    "only_trainable_params",
                                                    "use_3d_tensor_parallel",
                                                    "tp_x",
                                                    "tp_y",
                                                    "tp_z",
                                                    "micro_batch_interleave_num"};

std::string shown(const YAML::Node& node) {
  return node.IsScalar() ? node.Scalar().substr(0, 40) : "a list or mapping";
}

class MindFormersReader {
 public:
  MindFormersReader(std::string origin, const ReadOptions& options) : options_(options) {
    out_.origin = std::move(origin);
    out_.kind = "MindFormers configuration";
    out_.job.stack = Stack::kMindFormers;
    out_.job.vocab_multiple = 1;
  }

  ReadJob read(const YAML::Node& root);

 private:
  void read_parallel(const YAML::Node& root);
  void read_run(const YAML::Node& root);
  void read_recompute(const YAML::Node& root);
  void read_model(const YAML::Node& root);
  void read_shape(const YAML::Node& config);
  void read_moe(const YAML::Node& root);
  void read_offset(const YAML::Node& config);
  void read_memory_limit(const YAML::Node& root);
  void settle_world();

  SourceLine where(const YAML::Node& node) const {
    return {out_.origin, node.Mark().is_null() ? 0 : node.Mark().line + 1};
  }
  std::optional<int64_t> size(const YAML::Node& map, const char* key, const char* section,
                              int64_t least = 1);
  int degree(const YAML::Node& map, const char* key, const char* name);
  static bool flag(const YAML::Node& map, const char* key) {
    if (!map.IsMap() || !map[key] || !map[key].IsScalar()) {
      return false;
    }
    const std::string text = map[key].Scalar();
    return text == "True" || text == "true" || text == "TRUE" || text == "yes" || text == "on";
  }
  void mark(const char* key, const std::string& name, const YAML::Node& node) {
    out_.settings[key] = {name, shown(node), where(node)};
  }
  void problem(Severity severity, const std::string& key, const YAML::Node& node, std::string rule,
               std::string suggestion, const char* source);

  const ReadOptions& options_;
  ReadJob out_;
  int64_t interleave_ = 1;
};

void MindFormersReader::problem(Severity severity, const std::string& key, const YAML::Node& node,
                                std::string rule, std::string suggestion, const char* source) {
  CheckProblem found;
  found.key = key;
  found.value = shown(node);
  found.rule = std::move(rule);
  found.suggestion = std::move(suggestion);
  found.severity = severity;
  found.source = source;
  found.where = where(node);
  out_.problems.push_back(std::move(found));
}

std::optional<int64_t> MindFormersReader::size(const YAML::Node& map, const char* key,
                                               const char* section, int64_t least) {
  if (!map.IsMap() || !map[key] || map[key].IsNull()) {
    return std::nullopt;
  }
  const YAML::Node node = map[key];
  const std::optional<int64_t> value =
      node.IsScalar() ? parse_integer(node.Scalar()) : std::nullopt;
  if (!value || *value < least || *value > kMostYamlValue) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {}.{} is {}, but must be a whole number of {} to "
                "2^31",
                where(node).text(), section, key, shown(node), least);
  }
  return value;
}

int MindFormersReader::degree(const YAML::Node& map, const char* key, const char* name) {
  const int64_t value = size(map, key, "parallel_config").value_or(1);
  if (map.IsMap() && map[key]) {
    mark(name, std::string("parallel_config.") + key, map[key]);
  }
  if (value > kMaxRanks) {
    throw_error(ErrorCode::kInvalidArgument, "{}: parallel_config.{} is {}, at most {} is possible",
                where(map[key]).text(), key, value, kMaxRanks);
  }
  return static_cast<int>(value);
}

void MindFormersReader::read_parallel(const YAML::Node& root) {
  const YAML::Node config = yaml_child(root, "parallel_config");
  Layout& layout = out_.job.layout;
  layout.dp = degree(config, "data_parallel", "dp");
  layout.tp = degree(config, "model_parallel", "tp");
  layout.pp = degree(config, "pipeline_stage", "pp");
  layout.cp = degree(config, "context_parallel", "cp");
  layout.ep = degree(config, "expert_parallel", "ep");
  layout.sp = flag(config, "use_seq_parallel");
  if (config.IsMap() && config["use_seq_parallel"]) {
    mark("sp", "parallel_config.use_seq_parallel", config["use_seq_parallel"]);
  }
  if (yaml_scalar(config, "context_parallel_algo") == "ulysses_cp") {
    out_.job.cp_algorithm = CpAlgorithm::kUlysses;
  }
  if (config.IsMap()) {
    const std::vector<std::string> known(std::begin(kParallelConfigKeys),
                                         std::end(kParallelConfigKeys));
    for (const auto& entry : config) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      if (std::find(known.begin(), known.end(), key) == known.end() &&
          out_.unknown_flags.size() < 100) {
        out_.unknown_flags.push_back(
            {"parallel_config." + key.substr(0, 60), nearest_name(key, known), where(entry.first)});
      }
    }
  }
  const YAML::Node parallel = yaml_child(root, "parallel");
  layout.zero = flag(parallel, "enable_parallel_optimizer") ? 1 : 0;
  if (parallel.IsMap() && parallel["enable_parallel_optimizer"]) {
    mark("zero", "parallel.enable_parallel_optimizer", parallel["enable_parallel_optimizer"]);
  }
  const std::string mode = yaml_scalar(parallel, "parallel_mode");
  if (layout.pp > 1 && (mode == "0" || mode == "data_parallel")) {
    problem(Severity::kError, "parallel.parallel_mode", parallel["parallel_mode"],
            "data-parallel mode (0) has no pipeline stages", "parallel_mode: 1", kDocs);
  }
  const std::string use = yaml_scalar(root, "use_parallel");
  if ((use == "False" || use == "false") && layout.world_size() > 1) {
    problem(Severity::kError, "use_parallel", root["use_parallel"],
            "is off, so parallel_config is not used", "use_parallel: True", kDocs);
  }
}

void MindFormersReader::read_run(const YAML::Node& root) {
  const YAML::Node runner = yaml_child(root, "runner_config");
  const YAML::Node config = yaml_child(root, "parallel_config");
  BatchConfig& batch = out_.job.batch;
  batch.micro_batch_size = size(runner, "batch_size", "runner_config").value_or(0);
  if (batch.micro_batch_size == 0) {
    batch.micro_batch_size = std::max<int64_t>(options_.micro_batch_size, 1);
    out_.assumptions.push_back(
        {fmt::format("runner_config.batch_size is absent: {} is assumed", batch.micro_batch_size),
         {out_.origin, 0}});
  } else {
    mark("micro_batch_size", "runner_config.batch_size", runner["batch_size"]);
  }
  interleave_ = size(root, "micro_batch_interleave_num", "top level").value_or(1);
  const int64_t accumulation =
      size(runner, "gradient_accumulation_steps", "runner_config").value_or(1);
  const int64_t stated = size(config, "micro_batch_num", "parallel_config").value_or(1);
  // Without stages the micro-batches of the pipeline do not exist.
  const int64_t micro_batches = out_.job.layout.pp > 1 ? stated : 1;
  if (config.IsMap() && config["micro_batch_num"]) {
    mark("global_batch_size", "parallel_config.micro_batch_num", config["micro_batch_num"]);
  }
  const double product = static_cast<double>(batch.micro_batch_size) * out_.job.layout.dp *
                         static_cast<double>(micro_batches) * static_cast<double>(interleave_) *
                         static_cast<double>(accumulation);
  if (product > static_cast<double>(kMostYamlValue)) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: batch_size * data_parallel * micro_batch_num is "
                "more than 2^31 rows",
                out_.origin);
  }
  batch.global_batch_size =
      batch.micro_batch_size * out_.job.layout.dp * micro_batches * interleave_ * accumulation;
  if (interleave_ > 1 && out_.job.layout.tp == 1) {
    problem(Severity::kWarning, "micro_batch_interleave_num", root["micro_batch_interleave_num"],
            "hides collectives of model_parallel, which is 1: it has no effect",
            "micro_batch_interleave_num: 1", kDocs);
  }
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
    int64_t most = 0;
    for (const YAML::Node& entry : config["recompute"]) {
      const YAML::Node one = entry.IsSequence() && entry.size() > 0 ? entry[0] : entry;
      const auto layers = one.IsScalar() ? parse_integer(one.Scalar()) : std::nullopt;
      most = std::max(most, std::clamp<int64_t>(layers.value_or(0), 0, 4096));
    }
    out_.job.recompute_layers = most;
    out_.assumptions.push_back(
        {fmt::format("recomputation differs by stage: {} layers on each are taken", most),
         where(config["recompute"])});
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

void MindFormersReader::read_moe(const YAML::Node& root) {
  const YAML::Node config = yaml_child(root, "moe_config");
  MoeConfig& moe = out_.job.model.moe;
  const int64_t experts = size(config, "expert_num", "moe_config", 0).value_or(1);
  if (experts < 2) {
    return;
  }
  moe.num_experts = experts;
  mark("num_experts", "moe_config.expert_num", config["expert_num"]);
  moe.experts_per_token = size(config, "num_experts_chosen", "moe_config").value_or(1);
  moe.ffn_hidden_size =
      size(config, "moe_intermediate_size", "moe_config").value_or(out_.job.model.ffn_hidden_size);
  moe.shared_ffn_hidden_size =
      std::min<int64_t>(size(config, "shared_expert_num", "moe_config", 0).value_or(0), 1024) *
      moe.ffn_hidden_size;
  moe.first_dense_layers = size(config, "first_k_dense_replace", "moe_config", 0).value_or(0);
}

void MindFormersReader::read_model(const YAML::Node& root) {
  YAML::Node config = yaml_child(yaml_child(root, "model"), "model_config");
  if (!config.IsMap()) {
    config = yaml_child(root, "model_config");
  }
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
            "vocab_emb_dp: True, or a padded vocab_size", kDocs);
  }
}

void MindFormersReader::read_memory_limit(const YAML::Node& root) {
  const YAML::Node context = yaml_child(root, "context");
  const std::string limit = yaml_scalar(context, "max_device_memory");
  if (limit.empty()) {
    return;
  }
  const auto gigabytes = parse_integer(limit.substr(0, limit.find_first_not_of("0123456789")));
  if (gigabytes && *gigabytes > 59 && *gigabytes <= 64) {
    problem(Severity::kWarning, "context.max_device_memory", context["max_device_memory"],
            "leaves too little of a 64 GB device for what lies outside of the pool (collectives, "
            "context)",
            "max_device_memory: \"58GB\", or 54GB from about 1,000 cards", kMemoryDocs);
  }
}

void MindFormersReader::settle_world() {
  Layout& layout = out_.job.layout;
  const double product = static_cast<double>(layout.dp) * layout.tp * layout.pp * layout.cp;
  if (product > static_cast<double>(kMaxRanks)) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: data_parallel * model_parallel * pipeline_stage * "
                "context_parallel is more than {} devices",
                out_.origin, kMaxRanks);
  }
  out_.world_size = options_.devices > 0 ? options_.devices : layout.world_size();
  out_.settings["world_size"] = {
      "number of devices", std::to_string(out_.world_size), {out_.origin, 0}};
}

ReadJob MindFormersReader::read(const YAML::Node& root) {
  if (!root.IsMap() || (!root["parallel_config"] && !root["model"] && !root["model_config"] &&
                        !root["runner_config"])) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: is no MindFormers configuration (none of parallel_config, runner_config, "
                "model)",
                out_.origin);
  }
  const std::string mode = yaml_scalar(root, "run_mode");
  if (!mode.empty() && mode != "train" && mode != "finetune" && mode != "train_with_eval") {
    throw_error(ErrorCode::kInvalidArgument,
                "{}:{}: run_mode is '{}': only training is judged here; plait plan serve estimates "
                "serving",
                out_.origin, root["run_mode"].Mark().line + 1, mode);
  }
  read_parallel(root);
  settle_world();
  read_run(root);
  read_recompute(root);
  read_model(root);
  read_memory_limit(root);
  return std::move(out_);
}

}  // namespace

ReadJob read_mindformers(const std::string& text, const std::string& origin,
                         const ReadOptions& options) {
  if (text.size() > kMostYamlBytes) {
    throw_error(ErrorCode::kInvalidArgument, "{}: has {} bytes; configurations have at most {}",
                origin, text.size(), kMostYamlBytes);
  }
  try {
    return MindFormersReader(origin, options).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    throw_error(ErrorCode::kCorruptData, "{}:{}: is no YAML: {}", origin,
                error.mark.is_null() ? 0 : error.mark.line + 1, error.msg);
  }
}

}  // namespace plait
