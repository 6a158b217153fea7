#include "calibrate/calibrate.h"

#include <ctime>

#include <fmt/format.h>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/file.h"
#include "calibrate/measure.h"
#include "comm/rank_runner.h"
#include "comm/world_groups.h"

namespace plait {
namespace {

// What a rank's program and libraries take beside its tensors. Assumed.
constexpr double kReserveBytes = 5e7;
// Predictions on the machine that was measured: four of five steps lie within so much. Assumed
// until bench/plan_accuracy has run.
constexpr double kUncertainty = 0.15;

MeasureBudget budget_of(bool quick) {
  MeasureBudget budget;
  budget.seconds = quick ? 0.005 : 0.25;
  budget.tokens = quick ? 256 : 512;
  budget.largest = quick ? 512 : 1024;
  budget.ring_bytes = (quick ? 4 : 64) << 20;
  budget.stream_count = (quick ? 1 : 8) << 20;
  budget.message = (quick ? 1 : 16) << 20;
  return budget;
}

std::string cpu_model() {
  constexpr const char* kPath = "/proc/cpuinfo";
  if (!path_exists(kPath)) {
    return "unknown CPU";
  }
  const std::string text = read_file(kPath);
  const size_t key = text.find("model name");
  const size_t colon = text.find(": ", key);
  if (key == std::string::npos || colon == std::string::npos) {
    return "unknown CPU";
  }
  return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

class Calibration {
 public:
  Calibration(const CalibrateOptions& options, int threads, int cores)
      : options_(options), threads_(threads), cores_(cores), budget_(budget_of(options.quick)) {
    source_ = fmt::format("{}; {}, {} of {} cores a rank, {}", options.command, cpu_model(),
                          threads, cores, today());
  }

  Cluster run() {
    cluster_.name = "this-machine";
    cluster_.chip.name = fmt::format("rank-of-{}-threads", threads_);
    cluster_.cores = cores_;
    cluster_.threads_per_rank = threads_;
    cluster_.devices_per_server = std::max(1, cores_ / threads_);
    measure_rank();
    measure_ranks();
    Chip& chip = cluster_.chip;
    chip.memory_bytes =
        measured(static_cast<double>(available_memory_bytes()) / cluster_.devices_per_server);
    chip.reserve_bytes = {kReserveBytes, Provenance::kAssumed, "the program and its libraries"};
    cluster_.congestion = {1, Provenance::kAssumed, "one machine"};
    cluster_.uncertainty = {kUncertainty, Provenance::kAssumed, "the aim of bench/plan_accuracy"};
    return cluster_;
  }

 private:
  Sourced measured(double value) const { return {value, Provenance::kMeasured, source_}; }
  void say(const std::string& line) const {
    if (options_.progress) {
      options_.progress(line);
    }
  }

  // One rank with the machine to itself.
  void measure_rank() {
    RankRunnerOptions runner;
    runner.threads_per_rank = threads_;
    run_ranks(runner, [&](World& world) {
      Device& device = world.device();
      Chip& chip = cluster_.chip;
      say("matrix products");
      const GemmFit gemm = measure_gemm(device, budget_);
      chip.peak_f32 = measured(gemm.peak);
      chip.gemm_efficiency = measured(gemm.efficiency);
      chip.gemm_half_flops = measured(gemm.half_flops);
      chip.gemm_weight_bandwidth = measured(gemm.weight_bandwidth);
      // Below f32 where the CPU has no 16-bit products.
      chip.peak_16bit = measured(measure_peak(device, DType::kBF16, budget_));
      say("attention");
      chip.attention_efficiency =
          measured(std::min(1.0, measure_attention(device, budget_) / gemm.peak));
      say("elementwise kernels");
      const ElementwiseFit elementwise = measure_elementwise(device, budget_);
      chip.memory_bandwidth = measured(elementwise.fastest);
      chip.memory_efficiency = measured(elementwise.layer / elementwise.fastest);
      chip.launch_s = measured(measure_launch(device, budget_));
      say("memory bandwidth");
      const auto alone = world.create_group("alone", {{0}});
      chip.stream_bandwidth = measured(measure_stream(device, *alone, budget_));
      alone_s_ = measure_layer(device, *alone, budget_);
    });
  }

  // As many ranks as have cores of their own, but two at least: there must be a link.
  void measure_ranks() {
    RankRunnerOptions runner;
    runner.ranks = std::max(2, cluster_.devices_per_server);
    runner.threads_per_rank = threads_;
    run_ranks(runner, [&](World& world) {
      const auto everyone = create_world_group(world, "everyone");
      const auto pair = world.create_group("pair", {{0, 1}});
      const bool speaks = world.rank() == 0;
      if (speaks) {
        say("all ranks together");
      }
      const double stream = measure_stream(world.device(), *everyone, budget_);
      if (speaks) {
        cluster_.host_bandwidth = measured(stream * world.size());
      }
      const double together_s = measure_layer(world.device(), *everyone, budget_);
      if (speaks) {
        // Two ranks on one core say nothing about a second core.
        const bool own_cores = cluster_.devices_per_server > 1;
        cluster_.crowded_share = measured(own_cores ? std::min(1.0, alone_s_ / together_s) : 1.0);
        say("collectives and messages");
      }
      if (world.rank() < 2) {
        const Link link = measure_link(world.device(), *pair, budget_);
        if (speaks) {
          cluster_.intra = link;
        }
      }
      everyone->barrier();
    });
    Link& link = cluster_.intra;
    for (Sourced* figure : {&link.bandwidth, &link.latency_s, &link.efficiency, &link.half_bytes}) {
      *figure = measured(figure->value);
    }
  }

  const CalibrateOptions& options_;
  int threads_;
  int cores_;
  MeasureBudget budget_;
  std::string source_;
  double alone_s_ = 0;
  Cluster cluster_;
};

}  // namespace

Cluster calibrate_machine(const CalibrateOptions& options) {
  const int cores = available_cores();
  const int threads = std::max(1, options.threads);
  if (options.threads < 0 || threads > cores) {
    throw_error(ErrorCode::kInvalidArgument, "threads={}: this machine has {} cores; give 1 to {}",
                options.threads, cores, cores);
  }
  return Calibration(options, threads, cores).run();
}

}  // namespace plait
