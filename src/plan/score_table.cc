#include "plan/score_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "plan/estimate.h"
#include "spec/model_config.h"

namespace plait {
namespace {

// A column under the names that published tables give it, and the value of a row or table without
// it; no default: the column is required.
struct Column {
  const char* key;
  std::array<const char*, 5> aliases;
  const char* fallback;
};
constexpr const char* kRequired = nullptr;
constexpr std::array<Column, 35> kColumns = {{
    {"model", {"params", "", "", "", ""}, ""},
    {"devices", {"# gpus", "gpus", "npus", "", ""}, kRequired},
    {"global_batch", {"global batch", "gbs", "", "", ""}, kRequired},
    {"micro_batch", {"micro batch", "mbs", "", "", ""}, kRequired},
    {"layers", {"# layers", "num_layers", "", "", ""}, kRequired},
    {"hidden", {"hidden size", "", "", "", ""}, kRequired},
    {"heads", {"attention heads", "", "", "", ""}, kRequired},
    {"seq", {"sequence length", "seq_len", "", "", ""}, kRequired},
    {"tp", {"tensor parallelism", "", "", "", ""}, "1"},
    {"pp", {"pipeline parallelism", "", "", "", ""}, "1"},
    {"cp", {"", "", "", "", ""}, "1"},
    {"ep", {"", "", "", "", ""}, "1"},
    {"ffn", {"", "", "", "", ""}, ""},
    {"kv_heads", {"kv_groups", "", "", "", ""}, ""},
    {"head_dim", {"", "", "", "", ""}, ""},
    {"vocab", {"", "", "", "", ""}, "51200"},
    {"vpp_layers", {"vpp_layers_per_stage", "layers_per_vpp_stage", "", "", ""}, ""},
    {"sp", {"sequence_parallel", "", "", "", ""}, "no"},
    {"zero", {"distributed_optimizer", "dist_opt", "", "", ""}, "0"},
    {"overlap_grad_reduce", {"", "", "", "", ""}, "no"},
    {"overlap_param_gather", {"", "", "", "", ""}, "no"},
    {"recompute", {"recompute_granularity", "", "", "", ""}, "none"},
    {"recompute_method", {"", "", "", "", ""}, ""},
    {"recompute_layers", {"recompute_num_layers", "", "", "", ""}, ""},
    {"flash", {"flash_attn", "", "", "", ""}, "no"},
    {"overlap_tp_comm", {"use_mc2", "mc2", "", "", ""}, "no"},
    {"dtype", {"precision", "dtype_flag", "", "", ""}, "bf16"},
    {"gated", {"swiglu", "", "", "", ""}, "no"},
    {"untied", {"untied_embed", "", "", "", ""}, "no"},
    {"experts", {"num_experts", "", "", "", ""}, "0"},
    {"topk", {"moe_topk", "", "", "", ""}, "2"},
    {"cp_algorithm", {"cp_algo", "", "", "", ""}, "ring"},
    {"dropout", {"", "", "", "", ""}, "no"},
    {"reuse_fp32", {"", "", "", "", ""}, "no"},
    {"note", {"", "", "", "", ""}, ""},
}};

struct Measure {
  const char* name;
  bool throughput;  // tokens a second and device; else seconds times `unit`
  double unit;
};
constexpr std::array<Measure, 6> kMeasures = {{
    {"step_s", false, 1},
    {"step_ms", false, 1e-3},
    {"iteration time (ms)", false, 1e-3},
    {"median_step_ms", false, 1e-3},
    {"tokens_per_s_per_device", true, 1},
    {"tokens_per_s_per_npu", true, 1},
}};

const Column* find_column(const std::string& name) {
  const std::string key = lower(trimmed(name));
  for (const Column& column : kColumns) {
    if (key == column.key ||
        std::any_of(column.aliases.begin(), column.aliases.end(),
                    [&](const char* alias) { return *alias != '\0' && key == alias; })) {
      return &column;
    }
  }
  return nullptr;
}

bool empty_cell(const std::string& cell) {
  return cell.empty() || cell == "-" || cell == "--";
}

const char* fallback_of(const Column& column, const ScoreTableOptions& options) {
  const bool dropout = std::string_view(column.key) == "dropout";
  return dropout && options.stack == Stack::kMegatron ? "yes" : column.fallback;
}

// One row by canonical key.
class RowReader {
 public:
  RowReader(const CsvTable& table, const CsvRow& row, const std::map<std::string, int>& columns,
            const ScoreTableOptions& options)
      : table_(table), row_(row), columns_(columns), options_(options) {}

  std::string text(const char* key) const {
    const auto found = columns_.find(key);
    if (found != columns_.end()) {
      std::string cell = trimmed(row_.fields[static_cast<size_t>(found->second)]);
      if (!empty_cell(cell)) {
        return cell;
      }
    }
    const auto assumed = options_.assume.find(key);
    if (assumed != options_.assume.end()) {
      return assumed->second;
    }
    const char* fallback = fallback_of(*find_column(key), options_);
    if (fallback == kRequired) {
      throw_error(ErrorCode::kCorruptData, "{}:{}: column '{}' is empty", table_.origin, row_.line,
                  key);
    }
    return fallback;
  }

  // The first required column without a value, or null.
  const char* hole() const {
    for (const Column& column : kColumns) {
      if (column.fallback == kRequired && !options_.assume.contains(column.key) &&
          empty_cell(trimmed(row_.fields[static_cast<size_t>(columns_.at(column.key))]))) {
        return column.key;
      }
    }
    return nullptr;
  }

  int64_t integer(const char* key) const { return parse_integer(key, text(key)); }
  std::optional<int64_t> optional_integer(const char* key) const {
    const std::string cell = text(key);
    if (cell.empty()) {
      return std::nullopt;
    }
    return parse_integer(key, cell);
  }

  bool flag(const char* key) const {
    const std::string cell = lower(text(key));
    const bool yes = cell == "y" || cell == "yes" || cell == "true" || cell == "1";
    const bool no = cell.empty() || cell == "n" || cell == "no" || cell == "false" || cell == "0";
    if (!yes && !no) {
      throw_error(ErrorCode::kCorruptData, "{}:{}: {} is '{}'; allowed are yes and no",
                  table_.origin, row_.line, key, cell);
    }
    return yes;
  }

 private:
  int64_t parse_integer(const char* key, const std::string& cell) const {
    int64_t value = 0;
    const char* end = cell.data() + cell.size();
    const auto [stop, error] = std::from_chars(cell.data(), end, value);
    if (error != std::errc() || stop != end || value < 0 || value > (int64_t{1} << 40)) {
      throw_error(ErrorCode::kCorruptData, "{}:{}: {} is '{}', not a whole number of at least 0",
                  table_.origin, row_.line, key, cell);
    }
    return value;
  }

  const CsvTable& table_;
  const CsvRow& row_;
  const std::map<std::string, int>& columns_;
  const ScoreTableOptions& options_;
};

ModelConfig read_model(const RowReader& row) {
  ModelConfig m;
  m.hidden_size = row.integer("hidden");
  m.num_layers = row.integer("layers");
  m.num_heads = row.integer("heads");
  m.num_kv_heads = row.optional_integer("kv_heads").value_or(m.num_heads);
  m.gated_mlp = row.flag("gated");
  m.ffn_hidden_size = row.optional_integer("ffn").value_or(4 * m.hidden_size);
  m.head_dim =
      row.optional_integer("head_dim").value_or(m.hidden_size / std::max<int64_t>(1, m.num_heads));
  m.vocab_size = row.integer("vocab");
  m.max_position_embeddings = row.integer("seq");
  m.tie_word_embeddings = !row.flag("untied");
  m.norm = m.gated_mlp ? NormType::kRms : NormType::kLayer;
  m.position = m.gated_mlp ? PositionType::kRope : PositionType::kLearned;
  m.moe.num_experts = row.integer("experts");
  if (m.moe.num_experts > 0) {
    m.moe.experts_per_token = row.integer("topk");
    m.moe.ffn_hidden_size = m.ffn_hidden_size;
  }
  return m;
}

DType read_dtype(const RowReader& row) {
  const std::string name = lower(row.text("dtype"));
  return name == "fp16" || name == "f16"   ? DType::kF16
         : name == "fp32" || name == "f32" ? DType::kF32
                                           : DType::kBF16;
}

void read_layout(const RowReader& row, const ModelConfig& model, int devices, TrainJob& job) {
  Layout& l = job.layout;
  l.tp = static_cast<int>(std::max<int64_t>(1, row.integer("tp")));
  l.pp = static_cast<int>(std::max<int64_t>(1, row.integer("pp")));
  l.cp = static_cast<int>(std::max<int64_t>(1, row.integer("cp")));
  l.ep = static_cast<int>(std::max<int64_t>(1, row.integer("ep")));
  l.dp = std::max(1, devices / (l.tp * l.pp * l.cp));
  l.sp = row.flag("sp") && l.tp > 1;
  l.zero = row.flag("zero") ? 1 : 0;
  const std::optional<int64_t> vpp_layers = row.optional_integer("vpp_layers");
  if (vpp_layers && *vpp_layers > 0 && l.pp > 1 && model.num_layers > l.pp * *vpp_layers) {
    l.vpp = static_cast<int>(model.num_layers / (l.pp * *vpp_layers));
    l.schedule = l.vpp > 1 ? ScheduleKind::kInterleaved : l.schedule;
  }
  const std::string recompute = lower(row.text("recompute"));
  l.recompute = recompute.starts_with("full")        ? Recompute::kFull
                : recompute.starts_with("selective") ? Recompute::kSelective
                                                     : Recompute::kNone;
  if (l.recompute == Recompute::kFull && lower(row.text("recompute_method")) == "block") {
    job.recompute_layers = row.optional_integer("recompute_layers").value_or(-1);
  }
  const int64_t per_stage = l.pp * l.vpp;
  if (model.num_layers % per_stage != 0) {
    // Megatron refuses this; published rows of uneven models name no split: the first stages get
    // one more.
    for (int64_t v = 0; v < per_stage; ++v) {
      l.stage_layers.push_back(model.num_layers / per_stage +
                               (v < model.num_layers % per_stage ? 1 : 0));
    }
  }
}

MeasuredRun read_run(const RowReader& row, const ScoreTableOptions& options) {
  MeasuredRun run;
  run.devices = static_cast<int>(row.integer("devices"));
  TrainJob& job = run.job;
  job.stack = options.stack;
  job.model = read_model(row);
  job.dtype = read_dtype(row);
  job.flash_attention = row.flag("flash");
  job.overlap_grad_reduce = row.flag("overlap_grad_reduce");
  job.overlap_param_gather = row.flag("overlap_param_gather");
  job.overlap_tp_comm = row.flag("overlap_tp_comm");
  job.reuse_fp32_param = row.flag("reuse_fp32");
  job.dropout = row.flag("dropout") ? 0.1 : 0;
  job.cp_algorithm = lower(row.text("cp_algorithm")).find("ulysses") != std::string::npos
                         ? CpAlgorithm::kUlysses
                         : CpAlgorithm::kRing;
  job.vocab_multiple = 1;
  job.batch = {.global_batch_size = row.integer("global_batch"),
               .micro_batch_size = row.integer("micro_batch"),
               .seq_len = row.integer("seq")};
  read_layout(row, job.model, run.devices, job);
  const std::string name = row.text("model");
  run.model = fmt::format("{}{}L{}h{}", name, name.empty() ? "" : " ", job.model.num_layers,
                          job.model.hidden_size);
  job.model_name = run.model;
  run.question = fmt::format("{} on {}, batch {} x {}", run.model, run.devices,
                             job.batch.global_batch_size, job.batch.seq_len);
  run.note = row.text("note");
  return run;
}

// A contradiction inside the row, or empty.
std::string contradiction(const MeasuredRun& run) {
  const Layout& l = run.job.layout;
  const BatchConfig& b = run.job.batch;
  for (const int64_t size : {int64_t{run.devices}, b.global_batch_size, b.micro_batch_size,
                             b.seq_len, run.job.model.num_layers, run.job.model.hidden_size,
                             run.job.model.num_heads, run.job.model.vocab_size}) {
    if (size < 1) {
      return "a size is 0";
    }
  }
  if (run.devices % (l.tp * l.pp * l.cp) != 0) {
    return fmt::format("{} devices are not divisible by tp x pp x cp = {}", run.devices,
                       l.tp * l.pp * l.cp);
  }
  if (run.job.model.num_heads % l.tp != 0) {
    return fmt::format("{} heads are not divisible by tp {}", run.job.model.num_heads, l.tp);
  }
  if (b.global_batch_size < b.micro_batch_size * l.dp) {
    return fmt::format("global batch {} is smaller than micro batch {} x dp {}",
                       b.global_batch_size, b.micro_batch_size, l.dp);
  }
  if (l.pp * l.vpp > run.job.model.num_layers) {
    return fmt::format("{} layers for {} stages", run.job.model.num_layers, l.pp * l.vpp);
  }
  const int64_t m = b.num_microbatches(l);
  if (l.vpp > 1 && m % l.pp != 0) {
    return fmt::format("interleaving needs micro-batches ({}) divisible by pp ({})", m, l.pp);
  }
  return "";
}

// Notes what columns that the table lacks are taken to be.
void note_assumptions(const std::map<std::string, int>& columns, const ScoreTableOptions& options,
                      ScoreTable& scored) {
  for (const auto& [key, value] : options.assume) {
    const Column* column = find_column(key);
    if (column == nullptr || key != column->key) {
      throw_error(ErrorCode::kInvalidArgument, "assume {}={}: no such column", key, value);
    }
  }
  scored.recompute_unknown =
      !columns.contains("recompute") && !options.assume.contains("recompute");
  for (const Column& column : kColumns) {
    if (columns.contains(column.key) || *column.key == '\0') {
      continue;
    }
    const auto assumed = options.assume.find(column.key);
    const char* value =
        assumed != options.assume.end() ? assumed->second.c_str() : fallback_of(column, options);
    if (value == kRequired) {
      throw_error(ErrorCode::kCorruptData, "{}: column '{}' is missing", scored.origin, column.key);
    }
    if (*value != '\0') {
      scored.assumptions.push_back(fmt::format("{}={}", column.key, value));
    }
  }
}

}  // namespace

ScoreTable read_score_table(const CsvTable& table, const ScoreTableOptions& options) {
  ScoreTable scored;
  scored.origin = table.origin;
  std::map<std::string, int> columns;
  const Measure* measure = nullptr;
  int measured_column = -1;
  for (size_t c = 0; c < table.header.size(); ++c) {
    if (const Column* column = find_column(table.header[c])) {
      columns.emplace(column->key, static_cast<int>(c));
    }
    for (const Measure& m : kMeasures) {
      if (lower(trimmed(table.header[c])) == m.name && measure == nullptr) {
        measure = &m;
        measured_column = static_cast<int>(c);
      }
    }
  }
  if (measure == nullptr) {
    throw_error(ErrorCode::kCorruptData,
                "{}: no measured column; one of step_s, step_ms and tokens_per_s_per_device is "
                "needed",
                table.origin);
  }
  note_assumptions(columns, options, scored);
  for (const CsvRow& row : table.rows) {
    const std::string cell = trimmed(row.fields[static_cast<size_t>(measured_column)]);
    double value = 0;
    const char* end = cell.data() + cell.size();
    const auto [stop, error] = std::from_chars(cell.data(), end, value);
    if (error != std::errc() || stop != end || !(value > 0)) {
      scored.skipped.push_back(fmt::format("line {}: {} is '{}'", row.line, measure->name, cell));
      continue;
    }
    const RowReader reader(table, row, columns, options);
    if (const char* hole = reader.hole()) {
      scored.skipped.push_back(fmt::format("line {}: {} is empty", row.line, hole));
      continue;
    }
    MeasuredRun run = read_run(reader, options);
    run.line = row.line;
    const std::string wrong = contradiction(run);
    if (!wrong.empty()) {
      scored.impossible.push_back(fmt::format("line {}: {}", row.line, wrong));
      continue;
    }
    const auto tokens =
        static_cast<double>(run.job.batch.global_batch_size * run.job.batch.seq_len);
    run.step_s = measure->throughput ? tokens / value / run.devices : value * measure->unit;
    scored.runs.push_back(std::move(run));
  }
  return scored;
}

void assume_recompute(ScoreTable& table, const Cluster& cluster) {
  // Rows whose prediction is a little above the capacity prove nothing.
  constexpr double kShare = 0.05;
  if (!table.recompute_unknown) {
    return;
  }
  size_t too_large = 0;
  for (const MeasuredRun& run : table.runs) {
    const std::vector<StageMemoryPlan> stages = estimate_job_memory(run.job, cluster.chip);
    too_large += std::any_of(stages.begin(), stages.end(), [](const StageMemoryPlan& stage) {
      return stage.fit == Fit::kDoesNotFit;
    });
  }
  if (static_cast<double>(too_large) <= kShare * static_cast<double>(table.runs.size())) {
    return;
  }
  for (MeasuredRun& run : table.runs) {
    run.job.layout.recompute = Recompute::kFull;
  }
  for (std::string& assumption : table.assumptions) {
    if (assumption == "recompute=none") {
      assumption = fmt::format("recompute=full (without it {} of {} runs would not fit)", too_large,
                               table.runs.size());
    }
  }
}

}  // namespace plait
