#include "train/trainer.h"
#include "spec/model_flops.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/sharded_checkpoint.h"
#include "comm/fault.h"
#include "comm/gather_values.h"
#include "comm/rank_runner.h"
#include "data/jsonl_rows.h"
#include "data/token_dataset.h"
#include "train/data_order.h"
#include "train/gemm_peak.h"
#include "train/stop_signal.h"

namespace plait {
namespace {

std::unique_ptr<RowSource> open_rows(const TrainRun& run) {
  const TrainConfig& c = run.config;
  const auto seed = static_cast<uint64_t>(c.seed);
  if (c.data.ends_with(".jsonl")) {
    return std::make_unique<JsonlRows>(c.data,
                                       JsonlRowsOptions{.seq_len = c.seq_len,
                                                        .seed = seed,
                                                        .val_fraction = c.val_fraction,
                                                        .vocab_size = run.engine.model.vocab_size});
  }
  return std::make_unique<TokenDataset>(
      c.data, TokenDatasetOptions{.seq_len = c.seq_len,
                                  .seed = seed,
                                  .val_fraction = c.val_fraction,
                                  .vocab_size = run.engine.model.vocab_size,
                                  .mask_document_starts = c.mask_document_starts});
}

void make_folder(const char* key, const std::filesystem::path& folder) {
  std::error_code failure;
  if (!folder.empty() && !std::filesystem::is_directory(folder, failure)) {
    std::filesystem::create_directories(folder, failure);
    if (failure) {
      throw_error(ErrorCode::kIo, "{}: cannot create the folder '{}': {}; choose another place",
                  key, folder.string(), failure.message());
    }
  }
}

// A run never mixes with an earlier one: a resume would take whichever went further.
void check_no_earlier_run(const TrainRun& run) {
  if (run.config.resume || run.checkpoint_dir.empty()) {
    return;
  }
  const std::vector<CheckpointEntry> earlier = list_checkpoints(run.checkpoint_dir);
  if (!earlier.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "out={}: holds checkpoints of an earlier run, the newest of step {}; go on from it "
                "with --resume, or choose another --out",
                run.config.out, earlier.front().step);
  }
}

// What all ranks of the process read; opened before anything is written.
struct TrainInputs {
  explicit TrainInputs(const TrainRun& run)
      : rows(open_rows(run)),
        order{.global_batch_size = run.config.global_batch_size,
              .seq_len = run.config.seq_len,
              .seed = static_cast<uint64_t>(run.config.seed),
              .val_fraction = run.config.val_fraction,
              .data = run.config.data,
              .content_id = rows->content_id()} {
    if (run.config.finetune) {
      weights = open_hf_weights(run.config.model, run.engine.model);
    }
  }
  std::unique_ptr<RowSource> rows;
  DataOrder order;
  std::optional<HfImport> weights;  // to start from
};

// One rank's side of the run.
class Trainer {
 public:
  Trainer(const TrainRun& run, const TrainInputs& inputs, World& world)
      : run_(run),
        config_(run.config),
        inputs_(inputs),
        rows_(*inputs.rows),
        engine_(run.engine, world),
        is_root_(world.rank() == 0) {
    summary_.layout = to_string(run.engine.layout);
    summary_.world_size = run.world_size;
    summary_.threads_per_rank = run.threads_per_rank;
  }

  TrainSummary run() {
    engine_.context().recorder().set_tracing(!config_.trace.empty());
    load_weights();
    summary_.gemm_peak_flops = measure_peak();
    open_metrics();
    ProgressBar progress(config_.steps, step_);
    const int64_t first = step_;
    while (step_ < config_.steps && !stopping_) {
      const StepRecord record = one_step();
      note(record, record.step == first + 1);
      if (is_root_) {
        progress.show(record);
      }
      save_if_due();
    }
    if (is_root_) {
      progress.finish();
    }
    finish();
    return std::move(summary_);
  }

 private:
  TrainState state() {
    return {engine_.store(), engine_.optimizer(), engine_.context(), engine_.config().model};
  }

  CheckpointMeta meta() const {
    return {.step = step_,
            .tokens_seen = step_ * config_.global_batch_size * config_.seq_len,
            .seed = static_cast<uint64_t>(config_.seed),
            .extra = dump_json({{"loss_scale", engine_.loss_scale().scale},
                                {"loss_scale_good_steps", engine_.loss_scale().good_steps},
                                {"data", data_order_json(inputs_.order)}})};
  }

  void restore_extra(const std::string& extra) {
    const Json json = parse_json(extra, "checkpoint");
    if (json.is_object() && json.contains("loss_scale")) {
      engine_.set_loss_scale({.scale = json.value("loss_scale", 65536.0),
                              .good_steps = json.value("loss_scale_good_steps", int64_t{0})});
    }
  }

  void load_weights() {
    if (!run_.checkpoint_dir.empty()) {
      saver_.emplace(state(), SaveOptions{.directory = run_.checkpoint_dir,
                                          .keep_last = static_cast<int>(config_.keep_last),
                                          .async = config_.async_save});
    }
    if (config_.resume) {
      const auto loaded = load_latest(state(), run_.checkpoint_dir);
      if (loaded) {
        step_ = loaded->meta.step;
        restore_extra(loaded->meta.extra);
        summary_.first_step = step_;
        summary_.last_step = step_;
        summary_.checkpoint = loaded->path;
        check_data_order(loaded->meta, inputs_.order, loaded->path);
        if (is_root_) {
          log_info(-1, "resuming after step {} from {}", step_, loaded->path);
        }
        return;
      }
      if (is_root_) {
        log_warning(-1, "resume: no checkpoint in '{}' yet; starting from step 1",
                    run_.checkpoint_dir);
      }
    }
    if (inputs_.weights) {
      for (const std::string& name : inputs_.weights->unused) {
        if (is_root_) {
          log_warning(-1, "'{}': tensor '{}' is not used by this model", config_.model, name);
        }
      }
      engine_.init_weights(inputs_.weights->source);
    } else {
      engine_.init_weights(random_initial_values(static_cast<uint64_t>(config_.seed),
                                                 engine_.config().model.initializer_range));
    }
  }

  // FLOP/s of all ranks together, each measuring at the same time as the others.
  double measure_peak() {
    ProcessGroup& all = engine_.context().all();
    all.barrier();
    const double mine = measure_gemm_peak(engine_.context().device(), run_.engine.compute_dtype);
    double sum = 0;
    for (const double theirs : gather_values(all, mine)) {
      sum += theirs;
    }
    return sum;
  }

  void open_metrics() {
    if (!is_root_ || run_.metrics_path.empty()) {
      return;
    }
    if (step_ > 0 && std::filesystem::exists(run_.metrics_path)) {
      // Steps after the checkpoint are run again.
      write_file_atomic(run_.metrics_path, metrics_until(read_file(run_.metrics_path), step_));
    }
    errno = 0;
    metrics_.open(run_.metrics_path, step_ > 0 ? std::ios::app : std::ios::trunc);
    if (!metrics_) {
      throw_errno("open", run_.metrics_path);
    }
    summary_.metrics = run_.metrics_path;
  }

  StepRecord one_step() {
    const int64_t first_sample = step_ * config_.global_batch_size;
    const auto length = static_cast<size_t>(config_.seq_len);
    StepResult result;
    try {
      result = engine_.forward_backward([&](int64_t row, int32_t* tokens, int32_t* targets) {
        rows_.train_row(first_sample + row, {{tokens, length}, {targets, length}});
      });
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kNonFinite) {
        throw_error(error.code(), "step {}: {}", step_ + 1, error.message());
      }
      throw;
    }
    ++step_;
    const double lr = run_.lr.at(step_);
    if (!result.overflow) {
      engine_.update(lr, step_, result.grad_norm);
    }
    StepRecord record = summarise_step(exchange(), run_.engine.layout);
    record.step = step_;
    record.loss = result.loss;
    record.grad_norm = result.grad_norm;
    record.lr = lr;
    record.overflow = result.overflow;
    if (run_.engine.compute_dtype == DType::kF16) {
      record.loss_scale = engine_.loss_scale().scale;
    }
    record.tokens = config_.global_batch_size * config_.seq_len;
    record.mfu = record.tokens_per_s() * model_flops_per_token(run_.engine.model, config_.seq_len) /
                 summary_.gemm_peak_flops;
    const bool due = config_.eval_every > 0 && step_ % config_.eval_every == 0;
    if ((due || step_ == config_.steps) && rows_.num_val_rows() > 0) {
      record.val_loss = validate();
    }
    if (metrics_.is_open()) {
      errno = 0;
      metrics_ << metrics_line(record) << std::flush;
      if (!metrics_) {
        throw_errno("write", run_.metrics_path);
      }
    }
    return record;
  }

  // Tells the others about this rank's step; decides together whether to stop.
  std::vector<RankStep> exchange() {
    const StepTimes& times = engine_.times();
    const auto wait = [&](Wait kind) { return times.waits[static_cast<size_t>(kind)]; };
    const RankStep mine{.total_s = times.total_s,
                        .tensor_wait_s = wait(Wait::kTensor),
                        .data_wait_s = wait(Wait::kData),
                        .pipeline_wait_s = wait(Wait::kPipeline),
                        .control_wait_s = wait(Wait::kControl),
                        .optimizer_s = times.optimizer_s,
                        .stop_signal = stop_signal()};
    std::vector<RankStep> ranks = gather_values(engine_.context().all(), mine);
    for (const RankStep& rank : ranks) {
      stopping_ = stopping_ || rank.stop_signal != 0;
    }
    return ranks;
  }

  double validate() {
    const auto length = static_cast<size_t>(config_.seq_len);
    const int64_t batches =
        std::min(config_.eval_batches, (rows_.num_val_rows() + config_.global_batch_size - 1) /
                                           config_.global_batch_size);
    double sum = 0;
    int64_t tokens = 0;
    for (int64_t batch = 0; batch < batches; ++batch) {
      const StepResult result =
          engine_.evaluate([&](int64_t row, int32_t* row_tokens, int32_t* targets) {
            const int64_t index = batch * config_.global_batch_size + row;
            if (index < rows_.num_val_rows()) {
              rows_.val_row(index, {{row_tokens, length}, {targets, length}});
            }
          });
      sum += result.loss * static_cast<double>(result.target_tokens);
      tokens += result.target_tokens;
    }
    return tokens > 0 ? sum / static_cast<double>(tokens) : -1;
  }

  void note(const StepRecord& record, bool is_first) {
    if (is_first) {
      summary_.first_loss = record.loss;
    }
    summary_.last_loss = record.loss;
    summary_.last_step = record.step;
    if (record.val_loss >= 0) {
      summary_.val_loss = record.val_loss;
    }
    // The first step also warms caches and allocators up.
    if (is_first && step_ < config_.steps) {
      return;
    }
    tokens_ += static_cast<double>(record.tokens);
    seconds_ += record.time_s;
    ++steps_timed_;
    summary_.compute_s += record.compute_s;
    summary_.exposed_comm_s += record.exposed_comm_s;
    summary_.bubble_s += record.bubble_s;
    summary_.control_s += record.control_s;
    summary_.optimizer_s += record.optimizer_s;
  }

  void save_if_due() {
    if (!saver_) {
      return;
    }
    saver_->poll();
    const bool due = config_.save_every > 0 && step_ % config_.save_every == 0;
    if (due || step_ == config_.steps || stopping_) {
      if (peer_lost()) {
        throw_error(ErrorCode::kComm,
                    "a peer was lost: no checkpoint is written; resume from the previous one");
      }
      saver_->save(meta());
    }
  }

  void finish() {
    engine_.optimizer().wait_all();
    if (saver_) {
      saver_->finish();
      if (!saver_->last_path().empty()) {
        summary_.checkpoint = saver_->last_path();
      }
    }
    summary_.stopped = stopping_;
    if (seconds_ > 0) {
      const auto steps = static_cast<double>(steps_timed_);
      for (double* part : {&summary_.compute_s, &summary_.exposed_comm_s, &summary_.bubble_s,
                           &summary_.control_s, &summary_.optimizer_s}) {
        *part /= steps;
      }
      summary_.tokens_per_s = tokens_ / seconds_;
      summary_.mfu = summary_.tokens_per_s *
                     model_flops_per_token(run_.engine.model, config_.seq_len) /
                     summary_.gemm_peak_flops;
    }
    const ParallelContext& context = engine_.context();
    summary_.memory = gather_values(context.all(), context.device().ledger().totals());
    if (!config_.trace.empty()) {
      write_trace();
    }
  }

  void write_trace() {
    std::vector<std::vector<TraceSpan>> spans;
    const std::string mine = encode_spans(engine_.context().recorder().take_spans());
    for (const std::string& bytes : engine_.context().all().gather_bytes(mine)) {
      spans.push_back(decode_spans(bytes));
    }
    if (is_root_) {
      write_file_atomic(config_.trace, chrome_trace(spans));
      summary_.trace = config_.trace;
    }
  }

  const TrainRun& run_;
  const TrainConfig& config_;
  const TrainInputs& inputs_;
  const RowSource& rows_;
  Engine engine_;
  bool is_root_;
  std::optional<CheckpointSaver> saver_;
  std::ofstream metrics_;
  int64_t step_ = 0;  // done
  bool stopping_ = false;
  double tokens_ = 0, seconds_ = 0;
  int64_t steps_timed_ = 0;
  TrainSummary summary_;
};

}  // namespace

TrainSummary run_training(const TrainRun& run) {
  check_no_earlier_run(run);
  const TrainInputs inputs(run);
  make_folder("out", run.config.out);
  make_folder("metrics", std::filesystem::path(run.metrics_path).parent_path());
  make_folder("trace", std::filesystem::path(run.config.trace).parent_path());
  RankRunnerOptions options;
  options.ranks = run.world_size;
  options.device = run.config.device;
  options.threads_per_rank = run.threads_per_rank;
  options.comm.deadline_s = run.config.deadline_s;
  options.run_dir = run.config.out;
  TrainSummary summary;
  run_ranks(options, [&](World& world) {
    Trainer trainer(run, inputs, world);
    TrainSummary mine = trainer.run();
    if (world.rank() == 0) {
      summary = std::move(mine);
    }
  });
  return summary;
}

}  // namespace plait
