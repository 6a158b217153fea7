#include "serve/serving_rank.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "comm/rank_runner.h"

namespace plait {
namespace {

constexpr double kReportEveryS = 2;
// Most systems give all of it within this; a virtual machine that never used so much may not.
constexpr double kPopulateLimitS = 3;

StepDecoder::Limits step_limits(const ServingPlan& plan) {
  return {.max_num_seqs = plan.decoder.max_runs,
          .max_rows = plan.decoder.max_rows,
          .max_positions = plan.decoder.max_positions};
}

// Matrices that the loader reports, at most over the stages.
int64_t most_reports(const ModelConfig& config, const Layout& layout) {
  constexpr int64_t kOfLayer = 4;
  constexpr int64_t kOfEnds = 2;
  int64_t layers = 0;
  for (const LayerRange& range : split_layers(layout, config.num_layers)) {
    layers = std::max(layers, range.count());
  }
  return kOfLayer * layers + kOfEnds;
}

}  // namespace

ServingRank::ServingRank(const ServedModel& model, const ServingPlan& plan, World& world)
    : context_(plan.layout, world),
      config_(model.config),
      channel_(context_.all(), world.device(),
               {.max_words = StepDecoder::max_words(step_limits(plan))}),
      step_decoder_(step_limits(plan)) {
  load(model, plan);
}

void ServingRank::load(const ServedModel& model, const ServingPlan& plan) {
  const double start_s = now_s();
  double reported_s = start_s;
  int64_t reports = 0;
  // Ranks load at different speeds; meeting after each matrix keeps every wait far below the
  // deadline of the group, which is that of a step.
  const auto meet = [&] { context_.all().barrier(); };
  DecoderLoadOptions options;
  options.format = plan.format;
  options.threads =
      available_cores() / (under_mpi_launcher() ? launcher_local_size() : plan.layout.world_size());
  options.progress = [&](int64_t bytes) {
    meet();
    ++reports;
    if (context_.rank() == 0 && now_s() - reported_s > kReportEveryS) {
      reported_s = now_s();
      log_info(0, "loading: {} of {} per rank", format_bytes(bytes),
               format_bytes(plan.weight_bytes));
    }
  };
  DecoderWeights weights = load_decoder_weights(config_, context_, model.source, options);
  const int64_t all = most_reports(config_, plan.layout);
  for (; reports < all; ++reports) {
    meet();
  }
  decoder_ = std::make_unique<Decoder>(config_, context_, std::move(weights), plan.decoder);
  if (plan.populate_cache) {
    decoder_->populate_cache(kPopulateLimitS);
    meet();
  }
  load_s_ = now_s() - start_s;
}

void ServingRank::lead_step(const StepMessage& message) {
  channel_.send(message.words());
  decoder_->forward(step_decoder_.decode(message.words()));
}

void ServingRank::tell(const StepMessage& message) {
  channel_.send(message.words());
}

void ServingRank::follow(const std::function<void(int rank)>& hook) {
  for (;;) {
    const std::span<const int32_t> words = channel_.receive();
    const auto kind = static_cast<StepKind>(words[1]);
    if (kind == StepKind::kStop) {
      return;
    }
    if (kind == StepKind::kStep) {
      if (hook) {
        hook(context_.rank());
      }
      decoder_->forward(step_decoder_.decode(words));
    }
  }
}

}  // namespace plait
