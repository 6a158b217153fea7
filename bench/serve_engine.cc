// Speed of the serving engine, without HTTP: prompts, streams side by side, the prepared step plan
// against eager steps, and what a long prompt does to running streams. With one rank, each figure
// stands beside its bound: bytes at the speed of memory or flops at that of a large product (of
// 16-bit pairs where the CPU has those), both measured in this process. The speed of memory drifts,
// on shared machines by a third within a minute: the bound of a decoding figure is the mean of
// passes right after it.
//
//   serve_engine [--model DIR | --shape qwen3-0.6b] [--threads 2] [--layout dp1] [--dtype auto]
//                [--quantize none] [--streams 1,2,4,8,16] [--depth 0] [--only
//                decode|prefill|plan|gap] [--json]
//
// --json: one object on stdout, with a row a figure; the lines for people go to stderr.
// Without --model it writes a model of the shape with random weights to /tmp first.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/json_full.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "checkpoint/random_model.h"
#include "device/cpu/gemm.h"
#include "device/cpu/memory_peak.h"
#include "serve/engine.h"
#include "spec/model_catalog.h"
#include "spec/model_flops.h"

namespace plait {
namespace {

// Figures as they come: a line for people, and a row of the JSON object.
class Report {
 public:
  explicit Report(bool as_json) : as_json_(as_json) {}

  void add(const std::string& line, Json row) {
    std::FILE* out = as_json_ ? stderr : stdout;
    std::fprintf(out, "%s\n", line.c_str());
    std::fflush(out);
    rows_.push_back(std::move(row));
  }
  void end() const {
    if (as_json_) {
      std::printf("%s\n", dump_json(Json{{"rows", rows_}}, 2).c_str());
    }
  }

 private:
  bool as_json_;
  Json rows_ = Json::array();
};

struct Options {
  bool json = false;
  std::string model;
  std::string shape = "qwen3-0.6b";
  std::string only;
  std::vector<int64_t> streams = {1, 2, 4, 8, 16};
  int64_t depth = 0;
  ServingOptions serving;
};

// When each token of a request came.
struct Stream {
  double submitted_s = 0;
  std::vector<double> token_s;
  bool done = false;
};

class Client {
 public:
  explicit Client(ServingEngine& engine) : engine_(engine) {}

  size_t submit(int64_t prompt, int64_t output) {
    GenerationRequest request;
    for (int64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(
          static_cast<int32_t>(random_bits(3, seed_, static_cast<uint64_t>(i)) %
                               static_cast<uint64_t>(engine_.limits().vocab_size)));
    }
    ++seed_;
    request.sampling = {.temperature = 0, .ignore_eos = true, .max_tokens = output};
    size_t index = 0;
    {
      const std::scoped_lock lock(mutex_);
      index = streams_.size();
      streams_.emplace_back().submitted_s = now_s();
    }
    engine_.submit(std::move(request), [this, index](const RequestUpdate& update) {
      const std::scoped_lock lock(mutex_);
      if (!update.tokens.empty()) {
        streams_[index].token_s.push_back(now_s());
      }
      streams_[index].done = update.finish != FinishReason::kNone;
      changed_.notify_all();
    });
    return index;
  }
  void wait_tokens(size_t index, size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return streams_[index].done || streams_[index].token_s.size() >= count; });
  }
  Stream wait(size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return streams_[index].done; });
    return streams_[index];
  }

 private:
  ServingEngine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Stream> streams_;
  // No prompt twice: the prefix cache would answer.
  inline static uint64_t seed_ = 1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
};

// The fastest that this machine's memory and arithmetic allow one rank.
class Bound {
 public:
  Bound(int num_threads, Report& report) : num_threads_(num_threads) {
    ThreadPool pool({.num_threads = num_threads, .spin_us = 50});
    f32_flops_per_s_ = cpu::measure_gemm_peak(DType::kF32, pool);
    pair_flops_per_s_ =
        cpu_info().avx512_bf16 ? cpu::measure_gemm_peak(DType::kBF16, pool) : f32_flops_per_s_;
    const double memory = read_bandwidth();
    report.add(fmt::format("memory {:.1f} GB/s, large product {:.0f} GFLOP/s in f32, {:.0f} in 16 "
                           "bits",
                           memory / 1e9, f32_flops_per_s_ / 1e9, pair_flops_per_s_ / 1e9),
               {{"what", "machine"},
                {"memory_bytes_per_s", memory},
                {"f32_flops_per_s", f32_flops_per_s_},
                {"pair_flops_per_s", pair_flops_per_s_}});
  }

  // Bytes a second, now.
  double read_bandwidth() const {
    ThreadPool pool({.num_threads = num_threads_, .spin_us = 50});
    return cpu::measure_read_bandwidth(pool).mean;
  }

  void set(const ModelConfig& config, const ServingPlan& plan) {
    config_ = config;
    ranks_ = plan.layout.world_size();
    // Every weight of a product, once a step.
    const double weights = model_flops_per_token(config, 0) / 6;
    step_bytes_ = weights * weight_format_size(plan.format);
    const bool pairs =
        plan.format == WeightFormat::kInt8 ||
        (plan.format == WeightFormat::kBF16 && plan.decoder.activation_dtype == DType::kBF16);
    flops_per_s_ = pairs ? pair_flops_per_s_ : f32_flops_per_s_;
    token_bytes_ = static_cast<double>(plan.block_bytes) / kKvBlockTokens;
  }

  double decode(int64_t streams, int64_t depth, double bytes_per_s) const {
    const auto n = static_cast<double>(streams);
    const double bytes = step_bytes_ + n * static_cast<double>(depth) * token_bytes_;
    const double flops = n * model_flops_per_token(config_, 2 * depth) / 3;
    return n / std::max(bytes / bytes_per_s, flops / flops_per_s_);
  }
  // Without the logits of all tokens but the last.
  double prefill(int64_t tokens) const {
    const double head = 2.0 * static_cast<double>(config_.hidden_size * config_.vocab_size);
    return flops_per_s_ / (model_flops_per_token(config_, tokens) / 3 - head);
  }
  bool known() const { return ranks_ == 1; }
  std::string share(double tokens_per_s, double bound) const {
    return !known()
               ? ""
               : fmt::format(" ({:.0f} % of the bound {:.1f})", 100 * tokens_per_s / bound, bound);
  }

 private:
  ModelConfig config_;
  int num_threads_;
  // Large products: f32, and pairs of 16 bits where the CPU multiplies those faster.
  double f32_flops_per_s_ = 0, pair_flops_per_s_ = 0;
  double flops_per_s_ = 0;  // of the model's arithmetic
  double step_bytes_ = 0, token_bytes_ = 0;
  int ranks_ = 1;
};

std::unique_ptr<ServingEngine> start(const Options& options, Bound& bound) {
  ServedModel model = open_served_model(options.model);
  const ServingPlan plan =
      plan_serving(model, options.serving, host_limits(options.serving.layout));
  std::fprintf(stderr, "%s\n", plan.summary().c_str());
  bound.set(model.config, plan);
  auto engine = std::make_unique<ServingEngine>(std::move(model), options.serving, plan);
  engine->wait_until_ready();
  return engine;
}

struct DecodeResult {
  double tokens_per_s = 0;
  double outside_share = 0;  // of the step, in no kernel
};

// While all streams generate: from the last first token to the first last one.
DecodeResult run_decode(ServingEngine& engine, int64_t streams, int64_t prompt) {
  Client client(engine);
  const int64_t output = streams == 1 ? 48 : 32 + streams;
  std::vector<size_t> ids;
  for (int64_t i = 0; i < streams; ++i) {
    ids.push_back(client.submit(prompt, output));
  }
  client.wait_tokens(ids.back(), 1);
  const EngineStats before = engine.stats();
  double begin_s = 0;
  double end_s = 1e300;
  std::vector<Stream> results;
  for (const size_t id : ids) {
    results.push_back(client.wait(id));
    begin_s = std::max(begin_s, results.back().token_s.front());
    end_s = std::min(end_s, results.back().token_s.back());
  }
  const EngineStats after = engine.stats();
  int64_t tokens = 0;
  for (const Stream& stream : results) {
    tokens +=
        std::ranges::count_if(stream.token_s, [&](double t) { return t > begin_s && t <= end_s; });
  }
  const double step_s = after.step_s - before.step_s;
  return {static_cast<double>(tokens) / (end_s - begin_s),
          1 - (after.kernel_s - before.kernel_s) / step_s};
}

// null if there is none.
Json bound_json(const Bound& bound, double tokens_per_s) {
  return bound.known() ? Json(tokens_per_s) : Json();
}

void bench_prefill(ServingEngine& engine, const Bound& bound, Report& report) {
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    Client client(engine);
    const Stream stream = client.wait(client.submit(512, 1));
    best = std::max(best, 512 / (stream.token_s.front() - stream.submitted_s));
  }
  const double most = bound.prefill(512);
  report.add(fmt::format("prefill 512 tokens: {:.1f} tok/s{}", best, bound.share(best, most)),
             {{"what", "prefill"},
              {"tokens", 512},
              {"tokens_per_s", best},
              {"bound_tokens_per_s", bound_json(bound, most)}});
}

struct DecodeBench {
  const Options& options;
  ServingEngine& engine;
  const Bound& bound;
  Report& report;
};

void bench_decode(const DecodeBench& bench) {
  const auto& [options, engine, bound, report] = bench;
  const int64_t prompt = options.depth > 0 ? options.depth : 128;
  for (const int64_t streams : options.streams) {
    DecodeResult best;
    double most = 0;
    for (int i = 0; i < (options.depth > 0 ? 1 : 2); ++i) {
      const DecodeResult result = run_decode(engine, streams, prompt);
      const double bytes_per_s = bound.read_bandwidth();
      if (result.tokens_per_s > best.tokens_per_s) {
        best = result;
        most = bound.decode(streams, prompt + 16, bytes_per_s);
      }
    }
    report.add(fmt::format("decode {:2} streams behind {} tokens: {:.1f} tok/s{}, {:.1f} % of a "
                           "step outside kernels",
                           streams, prompt, best.tokens_per_s, bound.share(best.tokens_per_s, most),
                           100 * best.outside_share),
               {{"what", "decode"},
                {"streams", streams},
                {"depth", prompt},
                {"tokens_per_s", best.tokens_per_s},
                {"bound_tokens_per_s", bound_json(bound, most)},
                {"outside_kernels", best.outside_share}});
  }
}

void bench_gap(ServingEngine& engine, Report& report) {
  Client client(engine);
  std::vector<size_t> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(client.submit(64, 128));
  }
  for (const size_t id : ids) {
    client.wait_tokens(id, 16);
  }
  const double start_s = now_s();
  const Stream prompt = client.wait(client.submit(900, 4));
  double before = 0;
  double beside = 0;
  int64_t tokens = 0;
  double end_s = 0;
  for (const size_t id : ids) {
    const Stream stream = client.wait(id);
    tokens += std::ssize(stream.token_s);
    end_s = std::max(end_s, stream.token_s.back());
    for (size_t t = 1; t < stream.token_s.size(); ++t) {
      double& longest = stream.token_s[t] < start_s ? before : beside;
      longest = std::max(longest, stream.token_s[t] - stream.token_s[t - 1]);
    }
  }
  const double ttft_s = prompt.token_s.front() - prompt.submitted_s;
  const double tokens_per_s = static_cast<double>(tokens + 4) / (end_s - prompt.submitted_s + 1e-9);
  report.add(
      fmt::format("4 streams and a 900-token prompt: longest gap {:.0f} ms (before: {:.0f}), "
                  "time to the prompt's first token {:.2f} s, {:.1f} tok/s in all",
                  1e3 * beside, 1e3 * before, ttft_s, tokens_per_s),
      {{"what", "gap"},
       {"longest_gap_s", beside},
       {"longest_gap_before_s", before},
       {"prompt_ttft_s", ttft_s},
       {"tokens_per_s", tokens_per_s}});
}

double eager_tokens_per_s(Options options, Bound& bound) {
  options.serving.eager = true;
  return run_decode(*start(options, bound), 1, 128).tokens_per_s;
}

int run(Options& options) {
  if (options.model.empty()) {
    options.model = "/tmp/plait-" + options.shape;
    if (!std::filesystem::exists(options.model + "/config.json")) {
      write_random_model(find_model(options.shape), options.model, {});
    }
  }
  options.serving.populate_cache = true;
  options.serving.max_model_len = std::max<int64_t>(2048, options.depth + 512);
  const auto wanted = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  Report report(options.json);
  Bound bound(
      options.serving.threads_per_rank > 0 ? options.serving.threads_per_rank : available_cores(),
      report);
  double one_stream = 0;
  {
    // All prompts are through before anyone ends: no bound on the gap.
    Options unbounded = options;
    unbounded.serving.max_gap_ms = 1e6;
    const auto engine = start(unbounded, bound);
    if (wanted("prefill")) {
      bench_prefill(*engine, bound, report);
    }
    if (wanted("decode")) {
      bench_decode({options, *engine, bound, report});
    }
    if (wanted("plan")) {
      one_stream = run_decode(*engine, 1, 128).tokens_per_s;
    }
  }
  if (wanted("gap")) {
    bench_gap(*start(options, bound), report);
  }
  if (wanted("plan")) {
    const double eager = eager_tokens_per_s(options, bound);
    report.add(
        fmt::format("1 stream: step plan {:.1f} tok/s, eager {:.1f} tok/s", one_stream, eager),
        {{"what", "plan"}, {"tokens_per_s", one_stream}, {"eager_tokens_per_s", eager}});
  }
  report.end();
  return 0;
}

std::vector<int64_t> parse_counts(const std::string& list) {
  std::vector<int64_t> counts;
  for (size_t at = 0; at < list.size(); at = std::min(list.size(), list.find(',', at)) + 1) {
    counts.push_back(std::atoll(list.c_str() + at));
  }
  return counts;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      options.json = true;
      --i;
      continue;
    }
    if (i + 1 == argc) {
      throw_error(ErrorCode::kInvalidArgument, "{} needs a value", flag);
    }
    const std::string value = argv[i + 1];
    if (flag == "--model") {
      options.model = value;
    } else if (flag == "--shape") {
      options.shape = value;
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--threads") {
      options.serving.threads_per_rank = std::atoi(value.c_str());
    } else if (flag == "--layout") {
      options.serving.layout = parse_layout(value);
    } else if (flag == "--dtype") {
      options.serving.dtype = value == "f32"    ? ServingDType::kF32
                              : value == "bf16" ? ServingDType::kBF16
                                                : ServingDType::kAuto;
    } else if (flag == "--quantize") {
      options.serving.quantization = value == "w8" ? Quantization::kW8 : Quantization::kNone;
    } else if (flag == "--depth") {
      options.depth = std::atoll(value.c_str());
    } else if (flag == "--streams") {
      options.streams = parse_counts(value);
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
    plait::Options options = plait::parse(argc, argv);
    return plait::run(options);
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "serve_engine: %s\n", error.what());
    return plait::exit_code(error.code());
  }
}
