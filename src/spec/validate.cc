#include "spec/validate.h"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"

namespace plait {
namespace {

// Largest number of rows, tokens or padding that one setting may ask for: products of three stay
// below 2^63 with the limits of the model config.
constexpr int64_t kMaxSize = int64_t{1} << 31;
constexpr int64_t kMaxVocabMultiple = int64_t{1} << 20;
constexpr int64_t kMaxMicrobatches = 1000000;  // of one replica in one step
// Longer lists of layers are not spelled out in a suggestion.
constexpr int64_t kMaxListed = 64;

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
    check_sizes();
    if (!problems_.empty()) {
      return problems_;
    }
    check_rank_count();
    if (!problems_.empty()) {
      return problems_;
    }
    check_world();
    check_tensor_parallel();
    check_sequence_parallel();
    check_pipeline();
    check_schedule();
    check_batch();
    check_length();
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
      if (value < 1 || value > kMaxRanks) {
        add(key, value, fmt::format("must be at least 1 and at most {}", kMaxRanks),
            fmt::format("{}=1", key));
      }
    }
    if (layout_.zero < 0 || layout_.zero > 3) {
      add("zero", layout_.zero, "must be 0, 1, 2 or 3", "zero=1");
    }
  }

  void check_sizes() {
    const std::pair<const char*, int64_t> sizes[] = {
        {"micro_batch_size", run_.batch.micro_batch_size},
        {"global_batch_size", run_.batch.global_batch_size},
        {"seq_len", run_.batch.seq_len}};
    for (const auto& [key, value] : sizes) {
      if (value < 1 || value > kMaxSize) {
        add(key, value, fmt::format("must be at least 1 and at most {}", kMaxSize),
            fmt::format("{}=1", key));
      }
    }
    if (problems_.empty() && run_.batch.micro_batch_size > kMaxSize / run_.batch.seq_len) {
      add("micro_batch_size", run_.batch.micro_batch_size,
          fmt::format("micro_batch_size * seq_len must be at most {} tokens", kMaxSize),
          fmt::format("micro_batch_size={}", kMaxSize / run_.batch.seq_len));
    }
    if (run_.vocab_multiple < 1 || run_.vocab_multiple > kMaxVocabMultiple) {
      add("vocab_multiple", run_.vocab_multiple,
          fmt::format("must be at least 1 and at most {}", kMaxVocabMultiple), "vocab_multiple=1");
    }
  }

  void check_rank_count() {
    const std::pair<const char*, int> axes[] = {
        {"tp", layout_.tp}, {"pp", layout_.pp}, {"cp", layout_.cp}, {"dp", layout_.dp}};
    int64_t product = 1;
    int64_t left = kMaxRanks;
    std::string suggestion;
    for (const auto& [key, value] : axes) {
      product = std::min(product * value, kMaxRanks + 1);
      const int64_t fitting = std::min<int64_t>(value, left);
      left /= fitting;
      suggestion += fmt::format("{}{}={}", suggestion.empty() ? "" : " ", key, fitting);
    }
    if (product > kMaxRanks) {
      add("layout", to_string(layout_), fmt::format("dp*tp*pp*cp must be at most {}", kMaxRanks),
          suggestion);
    }
  }

  void check_world() {
    const int product = layout_.world_size();
    if (run_.world_size <= 0 || product == run_.world_size) {
      return;
    }
    const int model_parallel = product / layout_.dp;
    std::string suggestion = fmt::format("world_size={} by starting that many ranks", product);
    if (run_.world_size % model_parallel == 0) {
      suggestion = fmt::format("dp={} which fills {} ranks, or {}",
                               run_.world_size / model_parallel, run_.world_size, suggestion);
    }
    add("world_size", run_.world_size,
        fmt::format("must equal dp*tp*pp*cp = {}*{}*{}*{} = {}", layout_.dp, layout_.tp, layout_.pp,
                    layout_.cp, product),
        suggestion);
  }

  void check_divides_tp(const char* key, int64_t value, const char* what) {
    if (value % layout_.tp != 0) {
      add("tp", layout_.tp, fmt::format("must divide {} = {} ({})", key, value, what),
          fitting_tp());
    }
  }

  // A tp that satisfies every rule of the model at once.
  std::string fitting_tp() const {
    const int64_t common =
        std::gcd(std::gcd(model_.num_heads, model_.num_kv_heads), model_.ffn_hidden_size);
    return fmt::format("tp={}", divisor_at_most(common, layout_.tp));
  }

  void check_tensor_parallel() {
    check_divides_tp("num_attention_heads", model_.num_heads, "a head stays on one rank");
    if (run_.for_another_program) {
      if (model_.moe.num_experts == 0) {
        check_divides_tp("intermediate_size", model_.ffn_hidden_size,
                         "the MLP is split by columns");
      }
      return;
    }
    if (model_.num_kv_heads < layout_.tp) {
      add("tp", layout_.tp,
          fmt::format("must be at most num_key_value_heads = {}: kv heads are not replicated",
                      model_.num_kv_heads),
          fitting_tp());
    } else {
      check_divides_tp("num_key_value_heads", model_.num_kv_heads, "a kv head stays on one rank");
    }
    check_divides_tp("intermediate_size", model_.ffn_hidden_size, "the MLP is split by columns");
  }

  void check_sequence_parallel() {
    if (!layout_.sp || run_.for_another_program) {
      return;
    }
    if (layout_.tp == 1) {
      add("sp", "on", "sequence parallelism splits over the tp group, so it needs tp > 1",
          "sp=off, or tp=2 or more");
    }
    const int64_t seq_len = run_.batch.seq_len;
    if (seq_len % layout_.tp != 0) {
      // Downwards where possible: longer may exceed the model's limit.
      const int64_t fitting = std::max<int64_t>(seq_len / layout_.tp, 1) * layout_.tp;
      add("seq_len", seq_len,
          fmt::format("must be a multiple of tp = {} under sequence parallelism", layout_.tp),
          fmt::format("seq_len={}, or sp=off", fitting));
    }
  }

  // As many layers on every virtual stage as possible, the first stages one more.
  std::string listed_split(int64_t stages) const {
    std::vector<int64_t> counts;
    for (int64_t v = 0; v < stages; ++v) {
      counts.push_back(model_.num_layers / stages + (v < model_.num_layers % stages ? 1 : 0));
    }
    return fmt::format("stage_layers={}", fmt::join(counts, ","));
  }

  // Degrees that divide the layers evenly.
  std::string even_split() const {
    const int64_t pp = divisor_at_most(model_.num_layers, layout_.pp);
    const bool interleaved = layout_.schedule == ScheduleKind::kInterleaved;
    return fmt::format("pp={} vpp=1{}", pp, pp == 1 && interleaved ? " schedule=1f1b" : "");
  }

  void check_pipeline() {
    const int64_t layers = model_.num_layers;
    const int64_t stages = static_cast<int64_t>(layout_.pp) * layout_.vpp;
    const bool listable = stages <= std::min(kMaxListed, layers);
    if (layout_.stage_layers.empty()) {
      if (layers % stages != 0) {
        add("pp", layout_.pp,
            fmt::format("pp*vpp = {} must divide num_hidden_layers = {}: no layer is ever dropped",
                        stages, layers),
            even_split() + (listable ? fmt::format(", or {} (uneven)", listed_split(stages)) : ""));
      }
      return;
    }
    const std::vector<int64_t>& counts = layout_.stage_layers;
    const auto entries = static_cast<int64_t>(counts.size());
    const std::string value = entries <= kMaxListed ? fmt::format("{}", fmt::join(counts, ","))
                                                    : fmt::format("a list of {} numbers", entries);
    const std::string suggestion =
        listable ? listed_split(stages) : even_split() + " without stage_layers";
    if (entries != stages) {
      add("stage_layers", value,
          fmt::format("has {} numbers, but needs one for each of the pp*vpp = {} virtual stages",
                      entries, stages),
          suggestion);
      return;
    }
    int64_t sum = 0;
    for (const int64_t count : counts) {
      if (count < 0 || count > layers) {
        add("stage_layers", value,
            fmt::format("each number must be at least 0 and at most num_hidden_layers = {}",
                        layers),
            suggestion);
        return;
      }
      sum += count;
    }
    if (sum != layers) {
      add("stage_layers", value,
          fmt::format("adds up to {}, but must to num_hidden_layers = {}: no layer is ever dropped",
                      sum, layers),
          suggestion);
    }
  }

  void check_schedule() {
    const bool interleaved = layout_.schedule == ScheduleKind::kInterleaved;
    if (layout_.vpp > 1 && layout_.pp < 2) {
      add("vpp", layout_.vpp, "virtual stages need pp > 1", "vpp=1 schedule=1f1b, or pp=2 or more");
    }
    if (layout_.vpp > 1 && !interleaved) {
      add("vpp", layout_.vpp,
          fmt::format("needs schedule=interleaved, not {}", schedule_name(layout_.schedule)),
          "schedule=interleaved, or vpp=1");
    }
    if (interleaved && layout_.vpp == 1 && layout_.pp < 2) {
      add("schedule", "interleaved", "needs pp > 1", "schedule=1f1b, or pp=2 or more");
    }
  }

  void check_batch() {
    const int64_t batch = run_.batch.global_batch_size;
    const int64_t unit = run_.batch.micro_batch_size * layout_.dp;
    // Interleaving runs micro-batches in groups of pp.
    const int64_t group = layout_.schedule == ScheduleKind::kInterleaved ? layout_.pp : 1;
    const auto suggestion = [&] {
      const int64_t step = std::min(unit, kMaxSize) * group;
      const int64_t fitting = (batch + step - 1) / step * step;
      // A batch cannot grow without bound to fit huge degrees.
      return unit > kMaxSize || fitting > kMaxSize ? std::string(
                                                         "global_batch_size=1 "
                                                         "micro_batch_size=1 dp=1 pp=1")
                                                   : fmt::format("global_batch_size={}", fitting);
    };
    if (batch % unit != 0) {
      add("global_batch_size", batch,
          fmt::format("must be a multiple of micro_batch_size*dp = {}*{} = {}",
                      run_.batch.micro_batch_size, layout_.dp, unit),
          suggestion());
    } else if (batch / unit % group != 0) {
      add("global_batch_size", batch,
          fmt::format("interleaving needs a number of micro-batches ({}) that is a multiple of "
                      "pp = {}",
                      batch / unit, layout_.pp),
          suggestion());
    } else if (batch / unit > kMaxMicrobatches) {
      add("global_batch_size", batch,
          fmt::format("makes {} micro-batches of {} rows for each replica, but at most {} are "
                      "possible in a step",
                      batch / unit, run_.batch.micro_batch_size, kMaxMicrobatches),
          fmt::format("global_batch_size={}", kMaxMicrobatches / group * group * unit));
    }
  }

  void check_length() {
    const int64_t most = model_.max_position_embeddings;
    if (most > 0 && run_.batch.seq_len > most) {
      const int64_t unit = layout_.sp && most >= layout_.tp ? layout_.tp : 1;
      add("seq_len", run_.batch.seq_len,
          fmt::format("must be at most max_position_embeddings = {}", most),
          fmt::format("seq_len={}", most / unit * unit));
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
  if (layout.zero == 2 || layout.zero == 3) {
    add("zero", layout.zero, "only stages 0 and 1 are implemented", "zero=1");
  }
  if (layout.schedule == ScheduleKind::kZeroBubbleH1) {
    problems.push_back({"schedule", "zb-h1", "is planned, but not executed", "schedule=1f1b"});
  }
  if (layout.cp > 1) {
    add("cp", layout.cp, "context parallelism is not implemented", "cp=1");
  }
  if (layout.ep > 1) {
    add("ep", layout.ep, "expert parallelism is not implemented", "ep=1");
  }
  return problems;
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
  if (run.for_another_program) {
    return problems;
  }
  for (Problem& problem : find_unimplemented(run.layout)) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

void check_run(const RunShape& run) {
  const std::vector<Problem> problems = find_problems(run);
  if (problems.empty()) {
    return;
  }
  const bool broken = problems.size() > find_unimplemented(run.layout).size();
  std::string text = fmt::format("layout {} cannot run:", to_string(run.layout));
  for (const Problem& problem : problems) {
    text += fmt::format("\n  {}={}: {}; try {}", problem.key, problem.value, problem.rule,
                        problem.suggestion);
  }
  throw Error(broken ? ErrorCode::kInvalidArgument : ErrorCode::kNotImplemented, text);
}

}  // namespace plait
