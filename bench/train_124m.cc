// Training speed at the shape of a Llama of GPT-2-small's size (124M parameters), beside the bound
// that this machine's measured matrix-product peak and memory bandwidth give.
//
//   train_124m [--rows 4] [--seq 64] [--threads 2] [--precision f32|bf16] [--layout dp1]
//              [--micro-batch 4] [--steps 5] [--stage-layers 7,5]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "comm/rank_runner.h"
#include "spec/model_flops.h"
#include "timed_world.h"
#include "train/engine.h"
#include "train/gemm_peak.h"
#include "train/step_log.h"

namespace plait {
namespace {

struct Options {
  int64_t rows = 4;
  int64_t seq_len = 64;
  int64_t micro_batch = 4;
  int threads = 2;
  int steps = 5;
  DType dtype = DType::kF32;
  std::string layout = "dp1";
  std::vector<int64_t> stage_layers;
};

ModelConfig llama_124m() {
  ModelConfig config;
  config.family = ModelFamily::kLlama;
  config.vocab_size = 50304;
  config.hidden_size = 768;
  config.ffn_hidden_size = 2048;
  config.num_layers = 12;
  config.num_heads = 12;
  config.num_kv_heads = 12;
  config.head_dim = 64;
  config.max_position_embeddings = 1024;
  config.tie_word_embeddings = true;
  return config;
}

// Bytes per second of the optimizer's access pattern: AdamW over 32M parameters, 7 streams of f32.
double measure_bandwidth(Device& device) {
  constexpr int64_t kCount = 32 << 20;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) {
    tensors.emplace_back(device, std::vector<int64_t>{kCount}, DType::kF32,
                         MemoryCategory::kWorkspace);
    device.stream().zero(tensors.back().ptr(), tensors.back().bytes());
  }
  double best_s = 1e30;
  for (int i = 0; i < 3; ++i) {
    const double start = now_s();
    device.kernels().adamw(device.stream(), {.param = tensors[0].ptr(),
                                             .grad = tensors[1].ptr(),
                                             .exp_avg = tensors[2].ptr(),
                                             .exp_avg_sq = tensors[3].ptr(),
                                             .low_precision = {},
                                             .count = kCount,
                                             .lr = 1e-3F,
                                             .beta1 = 0.9F,
                                             .beta2 = 0.95F,
                                             .eps = 1e-8F,
                                             .weight_decay = 0.1F});
    device.stream().synchronize();
    best_s = std::min(best_s, now_s() - start);
  }
  return 7.0 * 4 * kCount / best_s;
}

struct Measured {
  std::vector<double> step_s;
  double compute_s = 0, exposed_s = 0, bubble_s = 0, optimizer_s = 0;
  double peak_flops = 0;
  double bandwidth = 0;
  std::map<std::string, double> kernel_s;  // of all steps of rank 0, by kernel
};

Measured run(const Options& options) {
  EngineConfig config;
  config.model = llama_124m();
  config.layout = parse_layout(options.layout);
  config.layout.stage_layers = options.stage_layers;
  config.batch = {.global_batch_size = options.rows,
                  .micro_batch_size = options.micro_batch,
                  .seq_len = options.seq_len};
  config.compute_dtype = options.dtype;
  config.adamw = {};
  const int world = config.layout.world_size();
  check_run({config.model, config.layout, config.batch, world});
  RankRunnerOptions runner;
  runner.ranks = world;
  runner.threads_per_rank = std::max(1, options.threads / world);
  Measured measured;
  run_ranks(runner, [&](World& w) {
    const double peak = measure_gemm_peak(w.device(), options.dtype);
    const double bandwidth = measure_bandwidth(w.device());
    TimedWorld timed(w);
    Engine engine(config, timed);
    engine.init_weights([](const ParamSpec& spec, const Shard& shard, std::span<float> out) {
      // Cheap values of the right size: the speed does not depend on them.
      const uint64_t stream = hash_name(spec.name) + static_cast<uint64_t>(shard.row_begin);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] =
            spec.init == Init::kOnes
                ? 1.0F
                : (static_cast<float>(random_bits(1, stream, i) >> 40) * 0x1p-24F - 0.5F) * 0.07F;
      }
    });
    for (int step = 1; step <= options.steps + 1; ++step) {
      engine.context().all().barrier();
      const double start = now_s();
      const StepResult result =
          engine.forward_backward([&](int64_t row, int32_t* tokens, int32_t* targets) {
            for (int64_t i = 0; i < options.seq_len; ++i) {
              const auto index = static_cast<uint64_t>(i);
              tokens[i] =
                  static_cast<int32_t>(random_bits(2, static_cast<uint64_t>(row), index) % 50257);
              targets[i] = static_cast<int32_t>(
                  random_bits(2, static_cast<uint64_t>(row), index + 1) % 50257);
            }
          });
      engine.update(1e-4, step, result.grad_norm);
      engine.optimizer().wait_all();
      engine.context().all().barrier();
      if (step == 1) {  // warms up
        timed.times().clear();
      } else if (w.rank() == 0) {
        measured.step_s.push_back(now_s() - start);
        const auto& waits = engine.times().waits;
        measured.exposed_s += waits[0] + waits[1];
        measured.bubble_s += waits[2];
        measured.optimizer_s += engine.times().optimizer_s;
        measured.compute_s += engine.times().total_s - engine.times().optimizer_s - waits[0] -
                              waits[1] - waits[2] - waits[3];
      }
    }
    if (w.rank() == 0) {
      measured.peak_flops = peak * world;
      measured.bandwidth = bandwidth;
      measured.kernel_s = timed.times().seconds();
    }
  });
  return measured;
}

// Where the steps of rank 0 went: products, attention, and everything else by kernel, the largest
// first. What no kernel accounts for is waiting, copies and the host's own work.
std::string describe_kernels(const Measured& m) {
  double total_s = 0;
  for (const double step_s : m.step_s) {
    total_s += step_s;
  }
  double products_s = 0, attention_s = 0, others_s = 0;
  std::vector<std::pair<double, std::string>> others;
  for (const auto& [name, seconds] : m.kernel_s) {
    if (name == "matmul") {
      products_s += seconds;
    } else if (name.starts_with("attention")) {
      attention_s += seconds;
    } else {
      others_s += seconds;
      others.emplace_back(seconds, name);
    }
  }
  others.emplace_back(total_s - products_s - attention_s - others_s, "outside kernels");
  std::sort(others.rbegin(), others.rend());
  const auto percent = [&](double seconds) { return 100 * seconds / total_s; };
  std::string text = fmt::format(
      "  kernels   products {:.1f} %, attention {:.1f} %, everything else {:.1f} % (goal: below "
      "20): ",
      percent(products_s), percent(attention_s), 100 - percent(products_s + attention_s));
  for (size_t i = 0; i < others.size() && i < 6; ++i) {
    text +=
        fmt::format("{}{} {:.1f}", i > 0 ? ", " : "", others[i].second, percent(others[i].first));
  }
  return text;
}

void print(const Options& options, Measured m) {
  std::sort(m.step_s.begin(), m.step_s.end());
  const auto tokens = static_cast<double>(options.rows * options.seq_len);
  const double best = tokens / m.step_s.front();
  const double median = tokens / m.step_s[m.step_s.size() / 2];
  const double flops = model_flops_per_token(llama_124m(), options.seq_len) * tokens;
  const auto parameters =
      static_cast<double>(count_parameters(make_parameter_table(llama_124m(), {})));
  const double compute_s = flops / m.peak_flops;
  const double optimizer_s = 28.0 * parameters / m.bandwidth;
  const double bound = tokens / (compute_s + optimizer_s);
  const auto steps = static_cast<double>(m.step_s.size());
  std::puts(
      fmt::format(
          "{} {} x {} tokens a step, {} threads, {}\n"
          "  plait     best {:.1f} tok/s, median {:.1f}\n"
          "  bound     {:.1f} tok/s (measured: {:.1f} GFLOP/s, {:.1f} GB/s; products {:.2f} s + "
          "optimizer {:.2f} s)\n"
          "  ratio     {:.0f} % of the bound\n"
          "  step      compute {:.3f} s, exposed communication {:.3f} s, bubble {:.3f} s, "
          "optimizer {:.3f} s\n{}",
          options.layout, options.rows, options.seq_len, options.threads, dtype_name(options.dtype),
          best, median, bound, m.peak_flops * 1e-9, m.bandwidth * 1e-9, compute_s, optimizer_s,
          100 * best / bound, m.compute_s / steps, m.exposed_s / steps, m.bubble_s / steps,
          m.optimizer_s / steps, describe_kernels(m))
          .c_str());
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (i + 1 >= argc) {
      throw_error(ErrorCode::kInvalidArgument, "{}: a value is missing", flag);
    }
    const std::string value = argv[++i];
    if (flag == "--rows") {
      options.rows = std::stoll(value);
    } else if (flag == "--seq") {
      options.seq_len = std::stoll(value);
    } else if (flag == "--micro-batch") {
      options.micro_batch = std::stoll(value);
    } else if (flag == "--threads") {
      options.threads = std::stoi(value);
    } else if (flag == "--steps") {
      options.steps = std::stoi(value);
    } else if (flag == "--layout") {
      options.layout = value;
    } else if (flag == "--precision") {
      options.dtype = value == "bf16" ? DType::kBF16 : DType::kF32;
    } else if (flag == "--stage-layers") {
      for (size_t at = 0; at != std::string::npos && at < value.size();) {
        options.stage_layers.push_back(std::stoll(value.substr(at)));
        at = value.find(',', at);
        at = at == std::string::npos ? at : at + 1;
      }
    } else {
      throw_error(ErrorCode::kInvalidArgument, "unknown flag {}", flag);
    }
  }
  return options;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  try {
    const plait::Options options = plait::parse(argc, argv);
    plait::print(options, plait::run(options));
    return 0;
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "train_124m: %s\n", error.what());
    return plait::exit_code(error.code());
  }
}
