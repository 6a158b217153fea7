#include "plan/readers/mindformers.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/units.h"
#include "plan/readers/mindformers_reader.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

constexpr const char* kMemoryDocs = "MindSpore documentation, max_device_memory";
constexpr double kMostPoolGib = 1 << 20;

// "58GB", "3.5GB" as MindSpore takes them (mindspore/context.py), where a GB is 2^30 bytes.
std::optional<double> pool_gib(std::string_view text) {
  if (!text.ends_with("GB")) {
    return std::nullopt;
  }
  const std::string number(text.substr(0, text.size() - 2));
  const bool plain = number.find_first_not_of("0123456789.") == std::string::npos &&
                     std::count(number.begin(), number.end(), '.') <= 1;
  const bool begins = !number.empty() && number.front() != '.' &&
                      (number.front() != '0' || number.starts_with("0."));
  const double value = plain && begins ? std::strtod(number.c_str(), nullptr) : 0;
  return value > 0 && value <= kMostPoolGib ? std::optional(value) : std::nullopt;
}

}  // namespace

SourceLine MindFormersReader::where(const YAML::Node& node) const {
  return {file_of(node, out_.origin, bases_), node.Mark().is_null() ? 0 : node.Mark().line + 1};
}

bool MindFormersReader::flag(const YAML::Node& map, const char* key) {
  if (!map.IsMap() || !map[key] || !map[key].IsScalar()) {
    return false;
  }
  const std::string text = map[key].Scalar();
  return text == "True" || text == "true" || text == "TRUE" || text == "yes" || text == "on";
}

std::string MindFormersReader::shown(const YAML::Node& node) {
  return node.IsScalar() ? node.Scalar().substr(0, 40) : "a list or mapping";
}

void MindFormersReader::mark(const char* key, const std::string& name, const YAML::Node& node) {
  out_.settings[key] = {name, shown(node), where(node)};
}

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
  const YAML::Node parallel = yaml_child(root, "parallel");
  layout.zero = flag(parallel, "enable_parallel_optimizer") ? 1 : 0;
  if (parallel.IsMap() && parallel["enable_parallel_optimizer"]) {
    mark("zero", "parallel.enable_parallel_optimizer", parallel["enable_parallel_optimizer"]);
  }
  const std::string mode = yaml_scalar(parallel, "parallel_mode");
  if (layout.pp > 1 && (mode == "0" || mode == "data_parallel")) {
    problem(Severity::kError, "parallel.parallel_mode", parallel["parallel_mode"],
            "data-parallel mode (0) has no pipeline stages", "parallel_mode: 1", kMindFormersDocs);
  }
  const std::string use = yaml_scalar(root, "use_parallel");
  if ((use == "False" || use == "false") && layout.world_size() > 1) {
    problem(Severity::kError, "use_parallel", root["use_parallel"],
            "is off, so parallel_config is not used", "use_parallel: True", kMindFormersDocs);
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
  if (runner.IsMap() && runner["gradient_accumulation_steps"]) {
    mark("gradient_accumulation_steps", "runner_config.gradient_accumulation_steps",
         runner["gradient_accumulation_steps"]);
  }
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
            "micro_batch_interleave_num: 1", kMindFormersDocs);
  }
}

void MindFormersReader::read_memory_limit(const YAML::Node& root) {
  const YAML::Node context = yaml_child(root, "context");
  const YAML::Node limit = yaml_child(context, "max_device_memory");
  if (limit.IsNull()) {
    return;
  }
  constexpr const char* kName = "context.max_device_memory";
  const auto gib = limit.IsScalar() ? pool_gib(limit.Scalar()) : std::nullopt;
  if (!gib) {
    problem(Severity::kError, kName, limit, "must be a number above 0 and GB behind it",
            "max_device_memory: \"58GB\"", kMemoryDocs);
    return;
  }
  out_.job.pool_bytes = *gib * kGiB;
  mark("pool", kName, limit);
  if (*gib > 59 && *gib <= 64) {
    problem(Severity::kWarning, kName, limit,
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
  const YAML::Node model = yaml_child(root, "model");
  if (!root.IsMap() ||
      (!root["parallel_config"] && !root["parallel"] && !root["model_config"] &&
       !root["runner_config"] && !(model.IsMap() && (model["model_config"] || model["arch"])))) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: is no MindFormers configuration (none of parallel_config, runner_config, "
                "model)",
                out_.origin);
  }
  const std::string mode = yaml_scalar(root, "run_mode");
  if (!mode.empty() && mode != "train" && mode != "finetune" && mode != "train_with_eval") {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: run_mode is '{}': only training is judged here; plait plan serve estimates "
                "serving",
                where(root["run_mode"]).text(), mode);
  }
  list_unknown_keys(root);
  read_parallel(root);
  settle_world();
  read_run(root);
  read_recompute(root);
  read_model(root);
  read_memory_limit(root);
  return std::move(out_);
}

ReadJob read_mindformers(const std::string& text, const std::string& origin,
                         const ReadOptions& options) {
  std::vector<std::string> bases;
  const YAML::Node root = read_with_bases(text, origin, bases);
  try {
    return MindFormersReader(origin, std::move(bases), options).read(root);
  } catch (const YAML::Exception& error) {
    throw_yaml_error(origin, error);
  }
}

}  // namespace plait
