#include "plan/job_problems.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "plan/estimate.h"

namespace plait {
namespace {

// Where the rules stand, by stack.
struct RuleSources {
  const char* world;
  const char* experts;
  const char* heads;
  const char* kv_heads;
  const char* sequence;
  const char* pipeline;
  const char* batch;
  const char* other;
};

RuleSources sources_of(Stack stack) {
  switch (stack) {
    case Stack::kMegatron:
    case Stack::kMindSpeed:
      return {"Megatron-LM megatron/core/parallel_state.py (not EP: the parallelism guide errs)",
              "Megatron-LM megatron/core/parallel_state.py, expert grid",
              "Megatron-LM megatron/core/transformer/attention.py, divide()",
              "Megatron-LM megatron/core/transformer/attention.py; modelscope/ms-swift issue 8219",
              "Megatron-LM megatron/training/arguments.py; NVIDIA-NeMo/RL pull request 3563",
              "Megatron-LM megatron/training/arguments.py; NVIDIA/Megatron-LM issues 468, 2718",
              "Megatron-LM megatron/core/num_microbatches_calculator.py",
              "Megatron-LM megatron/training/arguments.py"};
    case Stack::kDeepSpeed:
      return {"DeepSpeed deepspeed/runtime/pipe/topology.py",
              "DeepSpeed deepspeed/utils/groups.py",
              "DeepSpeed deepspeed/module_inject/auto_tp.py",
              "DeepSpeed deepspeed/module_inject/auto_tp.py",
              "DeepSpeed deepspeed/sequence/layer.py",
              "DeepSpeed deepspeed/runtime/pipe/module.py",
              "DeepSpeed deepspeed/runtime/config.py, _batch_assertion",
              "DeepSpeed deepspeed/runtime/config.py"};
    case Stack::kMindFormers:
      return {"MindFormers docs, parallel_config",
              "MindFormers docs, expert parallelism",
              "MindFormers research docs, model_parallel",
              "MindFormers docs, n_kv_heads",
              "MindFormers docs, context_parallel",
              "MindFormers docs, pipeline_stage and offset",
              "MindFormers docs, micro_batch_num",
              "MindFormers docs"};
    case Stack::kPlait:
      break;
  }
  const char* own = "plait docs/parallelism.md";
  return {own, own, own, own, own, own, own, own};
}

class Inspector {
 public:
  Inspector(const TrainJob& job, int world_size)
      : job_(job),
        layout_(job.layout),
        model_(job.model),
        world_(world_size),
        sources_(sources_of(job.stack)) {}

  std::vector<JobProblem> run();

 private:
  void add(const char* key, std::string value, std::string rule, std::string suggestion,
           const char* source, Severity severity = Severity::kError) {
    JobProblem problem;
    problem.key = key;
    problem.value = std::move(value);
    problem.rule = std::move(rule);
    problem.suggestion = std::move(suggestion);
    problem.severity = severity;
    problem.source = source;
    problems_.push_back(std::move(problem));
  }
  void add(const char* key, int64_t value, std::string rule, std::string suggestion,
           const char* source, Severity severity = Severity::kError) {
    add(key, std::to_string(value), std::move(rule), std::move(suggestion), source, severity);
  }

  void check_model();
  void check_common();
  std::string batch_suggestion(const std::string& otherwise) const;
  void check_world();
  void check_expert_grid();
  void check_kv_heads();
  void check_sequence();
  void check_ulysses();
  void check_experts();
  void check_zero();
  void check_micro_batches();
  void check_stages();
  const char* source_of(const std::string& key) const;
  bool is_megatron() const {
    return job_.stack == Stack::kMegatron || job_.stack == Stack::kMindSpeed;
  }

  const TrainJob& job_;
  const Layout& layout_;
  const ModelConfig& model_;
  int world_;
  RuleSources sources_;
  std::vector<JobProblem> problems_;
};

const char* Inspector::source_of(const std::string& key) const {
  return key == "world_size"                                       ? sources_.world
         : key == "tp"                                             ? sources_.heads
         : key == "seq_len" || key == "sp"                         ? sources_.sequence
         : key == "pp" || key == "vpp" || key == "stage_layers"    ? sources_.pipeline
         : key == "global_batch_size" || key == "micro_batch_size" ? sources_.batch
                                                                   : sources_.other;
}

// Sizes that the other rules divide by.
void Inspector::check_model() {
  const std::pair<const char*, int64_t> sizes[] = {{"num_layers", model_.num_layers},
                                                   {"hidden_size", model_.hidden_size},
                                                   {"num_heads", model_.num_heads},
                                                   {"num_kv_heads", model_.num_kv_heads},
                                                   {"ffn_hidden_size", model_.ffn_hidden_size},
                                                   {"head_dim", model_.head_dim},
                                                   {"vocab_size", model_.vocab_size}};
  for (const auto& [key, value] : sizes) {
    if (value < 1) {
      add(key, value, "must be at least 1", fmt::format("{}=1 or more", key), sources_.other);
    }
  }
  if (job_.etp < 0) {
    add("etp", job_.etp, "must be at least 1 (0: as tp)", "etp=1", sources_.experts);
  }
  if (model_.moe.num_experts < 0 || model_.moe.layer_period < 1) {
    add("num_experts", model_.moe.num_experts, "must be at least 0", "num_experts=0",
        sources_.experts);
  }
}

// The multiples around, and another number of replicas that divides the batch.
std::string Inspector::batch_suggestion(const std::string& otherwise) const {
  const int64_t batch = job_.batch.global_batch_size;
  const int64_t unit = job_.batch.micro_batch_size * layout_.dp;
  const int64_t group = layout_.schedule == ScheduleKind::kInterleaved ? layout_.pp : 1;
  if (unit > (int64_t{1} << 31) || batch % unit == 0) {
    return otherwise;
  }
  const int64_t step = unit * group;
  std::string text;
  if (batch / step > 0) {
    text = fmt::format("global_batch_size={}, or ", batch / step * step);
  }
  text += fmt::format("global_batch_size={}", (batch / step + 1) * step);
  for (int64_t dp = layout_.dp + 1; dp <= 2 * static_cast<int64_t>(layout_.dp); ++dp) {
    if (batch % (job_.batch.micro_batch_size * dp * group) == 0) {
      return text +
             fmt::format(", or dp={} ({} ranks)", dp, dp * layout_.tp * layout_.pp * layout_.cp);
    }
  }
  return text;
}

void Inspector::check_common() {
  const RunShape run = {.model = model_,
                        .layout = layout_,
                        .batch = job_.batch,
                        .world_size = 0,
                        .vocab_multiple = job_.vocab_multiple,
                        .for_another_program = true};
  for (Problem& problem : find_problems(run)) {
    JobProblem found;
    static_cast<Problem&>(found) = std::move(problem);
    found.source = source_of(found.key);
    if (found.key == "global_batch_size") {
      found.suggestion = batch_suggestion(found.suggestion);
    }
    problems_.push_back(std::move(found));
  }
}

void Inspector::check_world() {
  const int64_t model_parallel = static_cast<int64_t>(layout_.tp) * layout_.pp * layout_.cp;
  if (world_ <= 0) {
    return;
  }
  if (world_ % model_parallel != 0) {
    const int64_t below = world_ / model_parallel * model_parallel;
    add("world_size", world_,
        fmt::format("must be a multiple of tp*pp*cp = {}*{}*{} = {} (dp is what is left; ep is no "
                    "factor)",
                    layout_.tp, layout_.pp, layout_.cp, model_parallel),
        fmt::format("world_size={}{}, or degrees whose product divides {}", below + model_parallel,
                    below > 0 ? fmt::format(" or world_size={}", below) : "", world_),
        sources_.world);
  } else if (world_ != layout_.world_size()) {
    add("world_size", world_,
        fmt::format("must equal dp*tp*pp*cp = {}*{}", layout_.dp, model_parallel),
        fmt::format("dp={}", world_ / model_parallel), sources_.world);
  }
}

// Experts have a grid of their own: ETP * EP * PP must divide the world.
void Inspector::check_expert_grid() {
  const bool experts = model_.moe.num_experts > 0 || layout_.ep > 1;
  const int64_t world = world_ > 0 ? world_ : layout_.world_size();
  if (!experts || job_.stack == Stack::kDeepSpeed) {
    return;
  }
  const int64_t etp = job_.expert_tp();
  const int64_t grid = etp * layout_.ep * layout_.pp;
  if (grid > 0 && world % grid == 0) {
    return;
  }
  const int64_t dense = static_cast<int64_t>(layout_.tp) * layout_.pp * layout_.cp;
  std::string suggestion;
  if (job_.etp == 0 && etp > 1 && world % (static_cast<int64_t>(layout_.ep) * layout_.pp) == 0) {
    suggestion = "etp=1 (it is tp unless it is set), or ";
  }
  int64_t ep = std::min<int64_t>(layout_.ep, world / std::max<int64_t>(etp * layout_.pp, 1));
  const int64_t experts_count = std::max<int64_t>(model_.moe.num_experts, 1);
  while (ep > 1 && (world % (etp * ep * layout_.pp) != 0 || experts_count % ep != 0)) {
    --ep;
  }
  if (ep >= 1) {
    suggestion += fmt::format("ep={}, or ", ep);
  }
  int pp = layout_.pp;
  while (pp > 1 && (world % (etp * layout_.ep * pp) != 0 || model_.num_layers % pp != 0)) {
    --pp;
  }
  if (pp < layout_.pp && world % (etp * layout_.ep * pp) == 0) {
    suggestion += fmt::format("pp={}, or ", pp);
  }
  add("ep", layout_.ep,
      fmt::format(
          "etp*ep*pp = {}*{}*{} = {} must divide the world of {}{}", etp, layout_.ep, layout_.pp,
          grid, world,
          job_.etp == 0 ? " (etp is tp unless --expert-tensor-parallel-size is given)" : ""),
      suggestion + (grid <= kMaxRanks ? fmt::format("world_size={}", std::lcm(grid, dense))
                                      : std::string("smaller degrees")),
      sources_.experts);
}

void Inspector::check_kv_heads() {
  const int64_t kv = model_.num_kv_heads;
  if (kv % layout_.tp == 0 || model_.mla.kv_lora_rank > 0) {
    return;
  }
  int64_t fitting = std::min<int64_t>(layout_.tp, kv);
  while (kv % fitting != 0) {
    --fitting;
  }
  if (layout_.tp % kv == 0) {
    add("tp", layout_.tp,
        fmt::format("num_query_groups = {} must be a multiple of tp, unless kv heads are "
                    "replicated {} times (Megatron-Core 0.16 and later)",
                    kv, layout_.tp / kv),
        fmt::format("tp={}, or a release that replicates them", fitting), sources_.kv_heads);
    return;
  }
  add("tp", layout_.tp,
      fmt::format("neither divides num_query_groups = {} nor is a multiple of it", kv),
      fmt::format("tp={}", fitting), sources_.kv_heads);
}

void Inspector::check_sequence() {
  const int64_t seq = job_.batch.seq_len;
  const int64_t cp = layout_.cp, tp = layout_.tp;
  const bool sp = layout_.sp && tp > 1;
  if (layout_.sp && tp == 1) {
    add("sp", "on", "splits over tp, which is 1: it has no effect", "sp=off, or tp=2 or more",
        sources_.sequence, Severity::kWarning);
  }
  // Chunks of the causal balance, then sp of each chunk: cp * lcm(2, tp), not 2 * cp * tp.
  const int64_t unit = cp > 1 ? cp * (sp ? std::lcm<int64_t>(2, tp) : 2) : sp ? tp : 1;
  if (seq % unit == 0) {
    return;
  }
  const int64_t below = std::max<int64_t>(seq / unit, 1) * unit;
  std::string rule = fmt::format("must be a multiple of {}", unit);
  rule += cp > 1 ? fmt::format(": each of the cp = {} ranks holds two chunks{}", cp,
                               sp ? fmt::format(", whose tokens tp = {} splits (sp)", tp) : "")
                 : fmt::format(" = tp, which splits the tokens (sp)");
  add("seq_len", seq, std::move(rule),
      fmt::format("seq_len={}, or seq_len={} by padding", below, (seq / unit + 1) * unit),
      sources_.sequence);
}

void Inspector::check_ulysses() {
  if (layout_.cp < 2 || job_.cp_algorithm != CpAlgorithm::kUlysses ||
      model_.num_heads % layout_.tp != 0) {
    return;
  }
  const int64_t heads = model_.num_heads / layout_.tp;
  if (heads % layout_.cp != 0) {
    add("cp", layout_.cp,
        fmt::format("Ulysses splits the {} heads of a tp rank over cp, which must divide them",
                    heads),
        fmt::format("cp={}, or the ring algorithm", std::gcd<int64_t>(heads, layout_.cp)),
        sources_.sequence);
  }
}

void Inspector::check_experts() {
  const MoeConfig& moe = model_.moe;
  if (moe.num_experts < 1) {
    return;
  }
  if (moe.num_experts % layout_.ep != 0) {
    add("ep", layout_.ep, fmt::format("must divide num_experts = {}", moe.num_experts),
        fmt::format("ep={}", std::gcd<int64_t>(moe.num_experts, layout_.ep)), sources_.experts);
  }
  if (moe.experts_per_token < 1 || moe.experts_per_token > moe.num_experts) {
    add("experts_per_token", moe.experts_per_token,
        fmt::format("must be 1 to num_experts = {}", moe.num_experts),
        fmt::format("experts_per_token={}", std::min<int64_t>(2, moe.num_experts)),
        sources_.experts);
  }
  const int64_t etp = job_.expert_tp();
  if (moe.ffn_hidden_size > 0 && moe.ffn_hidden_size % etp != 0) {
    add("etp", etp, fmt::format("must divide the experts' ffn size {}", moe.ffn_hidden_size),
        "etp=1", sources_.experts);
  }
}

void Inspector::check_zero() {
  if (layout_.zero >= 2 && layout_.pp > 1 && job_.stack != Stack::kMindFormers && !is_megatron()) {
    add("zero", layout_.zero, "ZeRO-2 and ZeRO-3 do not work with pipeline stages",
        "zero=1, or pp=1", "DeepSpeed deepspeed/runtime/pipe/engine.py");
  }
  if (job_.dtype != DType::kBF16 && job_.reuse_fp32_param) {
    add("reuse_fp32_param", "on", "needs bf16", "bf16", sources_.other);
  }
}

void Inspector::check_micro_batches() {
  const int64_t unit = job_.batch.micro_batch_size * layout_.dp;
  const int64_t micro_batches = job_.batch.global_batch_size / unit;
  if (layout_.pp < 2 || micro_batches < 1 || micro_batches >= layout_.pp ||
      layout_.schedule == ScheduleKind::kInterleaved) {
    return;
  }
  const bool refused = job_.stack == Stack::kMindFormers;
  const int64_t idle = 100 * (layout_.pp - 1) / (micro_batches + layout_.pp - 1);
  add("global_batch_size", job_.batch.global_batch_size,
      fmt::format("makes {} micro-batches for pp = {} stages: {}", micro_batches, layout_.pp,
                  refused
                      ? "micro_batch_num must be at least the number of stages"
                      : fmt::format("{} % of the step is bubble (torchtitan hangs on this)", idle)),
      fmt::format("global_batch_size={}, or pp={}", unit * layout_.pp, micro_batches),
      refused ? sources_.batch : "pytorch/torchtitan issue 775",
      refused ? Severity::kError : Severity::kWarning);
}

void Inspector::check_stages() {
  if (layout_.stage_layers.empty() || static_cast<int64_t>(layout_.stage_layers.size()) !=
                                          static_cast<int64_t>(layout_.pp) * layout_.vpp) {
    return;
  }
  const auto empty = std::count(layout_.stage_layers.begin(), layout_.stage_layers.end(), 0);
  if (empty > 0 && is_megatron() && job_.stack == Stack::kMegatron) {
    add("stage_layers", empty, "virtual stages hold no layer", "fewer stages", sources_.pipeline,
        Severity::kWarning);
  }
}

std::vector<JobProblem> Inspector::run() {
  check_model();
  if (!problems_.empty()) {
    return problems_;
  }
  if (job_.stack == Stack::kPlait) {
    const RunShape run = {.model = model_,
                          .layout = layout_,
                          .batch = job_.batch,
                          .world_size = world_,
                          .vocab_multiple = job_.vocab_multiple};
    for (Problem& problem : find_problems(run)) {
      JobProblem found;
      static_cast<Problem&>(found) = std::move(problem);
      found.source = sources_.other;
      problems_.push_back(std::move(found));
    }
    return problems_;
  }
  check_common();
  const bool degrees_hold =
      std::min({layout_.dp, layout_.tp, layout_.pp, layout_.cp, layout_.ep, layout_.vpp}) >= 1 &&
      static_cast<double>(layout_.dp) * layout_.tp * layout_.pp * layout_.cp <= 1e6 &&
      layout_.ep <= kMaxRanks && job_.etp <= kMaxRanks && job_.batch.micro_batch_size >= 1 &&
      job_.batch.micro_batch_size <= (int64_t{1} << 31) && job_.batch.seq_len >= 1;
  if (!degrees_hold) {
    return problems_;
  }
  check_world();
  check_expert_grid();
  check_experts();
  check_kv_heads();
  check_sequence();
  check_ulysses();
  check_zero();
  check_stages();
  check_micro_batches();
  std::stable_partition(problems_.begin(), problems_.end(), [](const JobProblem& problem) {
    return problem.severity == Severity::kError;
  });
  return problems_;
}

}  // namespace

const char* severity_name(Severity severity) {
  return severity == Severity::kError ? "error" : "warning";
}

std::optional<JobProblem> find_chip_problem(const TrainJob& job, const Chip& chip) {
  if (chip.bf16 || job.dtype != DType::kBF16) {
    return std::nullopt;
  }
  JobProblem problem;
  problem.key = "dtype";
  problem.value = "bf16";
  problem.rule = fmt::format("the {} has no bf16", chip.name);
  problem.suggestion = "fp16";
  problem.source = "the chip's datasheet";
  return problem;
}

std::vector<JobProblem> inspect_job(const TrainJob& job, int world_size) {
  return Inspector(job, world_size).run();
}

std::vector<Problem> find_job_problems(const TrainJob& job, int world_size) {
  std::vector<Problem> errors;
  for (JobProblem& problem : inspect_job(job, world_size)) {
    if (problem.severity == Severity::kError) {
      errors.push_back(std::move(problem));
    }
  }
  return errors;
}

}  // namespace plait
