#include "spec/validate.h"

#include <algorithm>

#include "base/error.h"

namespace plait {
namespace {

// Largest divisor of `value` that is at most `limit`.
int64_t divisor_at_most(int64_t value, int64_t limit) {
  for (int64_t d = std::min(value, limit); d > 1; --d) {
    if (value % d == 0) {
      return d;
    }
  }
  return 1;
}

class Checker {
 public:
  explicit Checker(const RunShape& run) : run_(run), layout_(run.layout), model_(run.model) {}

  std::vector<Problem> run() {
    check_degrees();
    if (!problems_.empty()) {
      return problems_;
    }
    check_world();
    check_tensor_parallel();
    check_pipeline();
    check_schedule();
    check_batch();
    return problems_;
  }

 private:
  template <typename Value>
  void add(const std::string& key, const Value& value, std::string rule, std::string suggestion) {
    problems_.push_back({key, fmt::format("{}", value), std::move(rule), std::move(suggestion)});
  }

  void check_degrees() {
    const std::pair<const char*, int> degrees[] = {{"dp", layout_.dp}, {"tp", layout_.tp},
                                                   {"pp", layout_.pp}, {"vpp", layout_.vpp},
                                                   {"cp", layout_.cp}, {"ep", layout_.ep}};
    for (const auto& [key, value] : degrees) {
      if (value < 1) {
        add(key, value, "must be at least 1", fmt::format("{}=1", key));
      }
    }
    const std::pair<const char*, int64_t> sizes[] = {
        {"micro_batch_size", run_.batch.micro_batch_size},
        {"global_batch_size", run_.batch.global_batch_size},
        {"seq_len", run_.batch.seq_len}};
    for (const auto& [key, value] : sizes) {
      if (value < 1 || value > (int64_t{1} << 31)) {
        add(key, value, "must be between 1 and 2^31", fmt::format("{}=1 or more", key));
      }
    }
  }

  void check_world() {
    // Wide arithmetic: degrees come from the user.
    const int64_t product = static_cast<int64_t>(layout_.dp) * layout_.tp * layout_.pp * layout_.cp;
    if (run_.world_size <= 0 || product == run_.world_size) {
      return;
    }
    const int64_t model_parallel = static_cast<int64_t>(layout_.tp) * layout_.pp * layout_.cp;
    const std::string suggestion =
        run_.world_size % model_parallel == 0
            ? fmt::format("dp={} fills {} ranks with tp={} pp={}", run_.world_size / model_parallel,
                          run_.world_size, layout_.tp, layout_.pp)
            : fmt::format("start {} ranks, or choose tp and pp whose product divides {}", product,
                          run_.world_size);
    add("world_size", run_.world_size,
        fmt::format("must equal dp*tp*pp*cp = {}*{}*{}*{} = {}", layout_.dp, layout_.tp, layout_.pp,
                    layout_.cp, product),
        suggestion);
  }

  void check_divides_tp(const char* key, int64_t value, const char* what) {
    if (value % layout_.tp == 0) {
      return;
    }
    add("tp", layout_.tp, fmt::format("must divide {} = {} ({})", key, value, what),
        fmt::format("tp={}", divisor_at_most(value, layout_.tp)));
  }

  void check_tensor_parallel() {
    check_divides_tp("num_attention_heads", model_.num_heads, "a head stays on one rank");
    if (model_.num_kv_heads < layout_.tp) {
      add("tp", layout_.tp,
          fmt::format("must be at most num_key_value_heads = {}: kv heads are not replicated",
                      model_.num_kv_heads),
          fmt::format("tp={}", divisor_at_most(model_.num_kv_heads, layout_.tp)));
    } else {
      check_divides_tp("num_key_value_heads", model_.num_kv_heads, "a kv head stays on one rank");
    }
    check_divides_tp("intermediate_size", model_.ffn_hidden_size, "the MLP is split by columns");
    if (layout_.sp && layout_.tp == 1) {
      add("sp", "on", "sequence parallelism splits over the tp group, so it needs tp > 1",
          "leave sp out, or raise tp");
    }
    if (layout_.sp && run_.batch.seq_len % layout_.tp != 0) {
      add("seq_len", run_.batch.seq_len,
          fmt::format("must be a multiple of tp = {} under sequence parallelism", layout_.tp),
          fmt::format("seq_len={}", (run_.batch.seq_len / layout_.tp + 1) * layout_.tp));
    }
  }

  void check_pipeline() {
    const int64_t stages = static_cast<int64_t>(layout_.pp) * layout_.vpp;
    if (layout_.stage_layers.empty()) {
      if (stages > model_.num_layers || model_.num_layers % stages != 0) {
        add("pp", layout_.pp,
            fmt::format("pp*vpp = {} must divide num_hidden_layers = {}: no layer is ever dropped",
                        stages, model_.num_layers),
            fmt::format("pp={} vpp=1, or an uneven split with stage_layers (numbers that add up "
                        "to {})",
                        divisor_at_most(model_.num_layers, layout_.pp), model_.num_layers));
      }
      return;
    }
    int64_t sum = 0;
    bool positive = true;
    for (const int64_t count : layout_.stage_layers) {
      positive = positive && count >= 0 && count <= model_.num_layers;
      sum += positive ? count : 0;
    }
    const auto entries = static_cast<int64_t>(layout_.stage_layers.size());
    if (entries != stages) {
      add("stage_layers", fmt::format("{} numbers", entries),
          fmt::format("needs one number for each of the pp*vpp = {} virtual stages", stages),
          "add or remove numbers");
    } else if (!positive || sum != model_.num_layers) {
      add("stage_layers", fmt::format("sum {}", sum),
          fmt::format("the numbers must be >= 0 and add up to num_hidden_layers = {}: no layer is "
                      "ever dropped",
                      model_.num_layers),
          "change one of the numbers");
    }
  }

  void check_schedule() {
    if (layout_.vpp > 1 && layout_.schedule != ScheduleKind::kInterleaved) {
      add("vpp", layout_.vpp,
          fmt::format("needs schedule=interleaved, not {}", schedule_name(layout_.schedule)),
          "schedule=interleaved or vpp=1");
    }
    if (layout_.schedule != ScheduleKind::kInterleaved) {
      return;
    }
    if (layout_.pp < 2) {
      add("schedule", "interleaved", "needs pp > 1", "schedule=1f1b");
    }
    const int64_t microbatches =
        run_.batch.global_batch_size / (run_.batch.micro_batch_size * layout_.dp);
    if (microbatches % layout_.pp != 0) {
      add("global_batch_size", run_.batch.global_batch_size,
          fmt::format("interleaving needs a number of micro-batches ({}) that is a multiple of "
                      "pp = {}",
                      microbatches, layout_.pp),
          fmt::format("global_batch_size={}", (microbatches / layout_.pp + 1) * layout_.pp *
                                                  run_.batch.micro_batch_size * layout_.dp));
    }
  }

  void check_batch() {
    const int64_t unit = run_.batch.micro_batch_size * layout_.dp;
    if (run_.batch.global_batch_size % unit != 0) {
      add("global_batch_size", run_.batch.global_batch_size,
          fmt::format("must be a multiple of micro_batch_size*dp = {}*{} = {}",
                      run_.batch.micro_batch_size, layout_.dp, unit),
          fmt::format("global_batch_size={}", (run_.batch.global_batch_size / unit + 1) * unit));
    }
    if (model_.max_position_embeddings > 0 && run_.batch.seq_len > model_.max_position_embeddings) {
      add("seq_len", run_.batch.seq_len,
          fmt::format("must be at most max_position_embeddings = {}",
                      model_.max_position_embeddings),
          fmt::format("seq_len={}", model_.max_position_embeddings));
    }
  }

  const RunShape& run_;
  const Layout& layout_;
  const ModelConfig& model_;
  std::vector<Problem> problems_;
};

// Valid in general, but not something plait can execute.
std::vector<Problem> find_unimplemented(const Layout& layout) {
  std::vector<Problem> problems;
  const auto add = [&](const char* key, int value, const char* rule, const char* suggestion) {
    problems.push_back({key, fmt::format("{}", value), rule, suggestion});
  };
  if (layout.zero < 0 || layout.zero > 3) {
    add("zero", layout.zero, "must be 0, 1, 2 or 3", "zero=1");
  } else if (layout.zero > 1) {
    add("zero", layout.zero, "only stages 0 and 1 are implemented", "zero=1");
  }
  if (layout.cp > 1) {
    add("cp", layout.cp, "context parallelism is not implemented", "cp=1");
  }
  if (layout.ep > 1) {
    add("ep", layout.ep, "expert parallelism is not implemented", "ep=1");
  }
  return problems;
}

[[noreturn]] void throw_problems(ErrorCode code, const Layout& layout,
                                 const std::vector<Problem>& problems) {
  std::string text = fmt::format("layout {} cannot run:", to_string(layout));
  for (const Problem& problem : problems) {
    text += fmt::format("\n  {}={}: {}; try {}", problem.key, problem.value, problem.rule,
                        problem.suggestion);
  }
  throw Error(code, text);
}

}  // namespace

int64_t BatchConfig::num_microbatches(const Layout& layout) const {
  const int64_t unit = micro_batch_size * layout.dp;
  int64_t count = (global_batch_size + unit - 1) / unit;
  if (layout.schedule == ScheduleKind::kInterleaved) {
    count = (count + layout.pp - 1) / layout.pp * layout.pp;
  }
  return count;
}

std::vector<Problem> find_problems(const RunShape& run) {
  std::vector<Problem> problems = Checker(run).run();
  for (Problem& problem : find_unimplemented(run.layout)) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

void check_run(const RunShape& run) {
  const std::vector<Problem> broken = Checker(run).run();
  if (!broken.empty()) {
    throw_problems(ErrorCode::kInvalidArgument, run.layout, broken);
  }
  const std::vector<Problem> missing = find_unimplemented(run.layout);
  if (!missing.empty()) {
    throw_problems(ErrorCode::kNotImplemented, run.layout, missing);
  }
}

}  // namespace plait
