#include "serve/serve_metrics.h"

#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace plait {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// vLLM's, so that its dashboards' quantiles mean the same.
const Buckets kTtftBuckets = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,  0.75,
                              1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0};
const Buckets kTokenBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                               0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1.0,   2.5,
                               5.0,   7.5,    10.0,  20.0, 40.0,  80.0};
const Buckets kRequestBuckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                 5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kCountBuckets = {1,   2,    5,    10,   20,    50,    100,   200,
                               500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

}  // namespace

struct ServeMetrics::Impl {
  using Labels = prometheus::Labels;
  struct HistogramSpec {
    const char* name;
    const char* help;
    const Buckets& buckets;
  };

  explicit Impl(const std::string& model_name)
      : labels{{"engine", "0"}, {"model_name", model_name}},
        ttft(histogram({"vllm:time_to_first_token_seconds",
                        "From the arrival of a request to its first token.", kTtftBuckets})),
        inter_token(histogram({"vllm:inter_token_latency_seconds",
                               "Between two tokens of a request.", kTokenBuckets})),
        e2e(histogram({"vllm:e2e_request_latency_seconds",
                       "From the arrival of a request to its end.", kRequestBuckets})),
        queue(histogram({"vllm:request_queue_time_seconds", "From submission to the first step.",
                         kRequestBuckets})),
        prefill(histogram({"vllm:request_prefill_time_seconds",
                           "From the first step to the first token.", kRequestBuckets})),
        decode(histogram({"vllm:request_decode_time_seconds", "From the first token to the last.",
                          kRequestBuckets})),
        prompt_tokens(histogram({"vllm:request_prompt_tokens", "Prompt lengths.", kCountBuckets})),
        generation_tokens(
            histogram({"vllm:request_generation_tokens", "Answer lengths.", kCountBuckets})),
        max_tokens(histogram(
            {"vllm:request_params_max_tokens", "What clients allow at most.", kCountBuckets})),
        success(prometheus::BuildCounter()
                    .Name("vllm:request_success_total")
                    .Help("Requests that ended, by reason.")
                    .Labels(labels)
                    .Register(registry)),
        http(prometheus::BuildCounter()
                 .Name("plait:http_responses_total")
                 .Help("Answers by path and status.")
                 .Labels(labels)
                 .Register(registry)),
        rejections(prometheus::BuildCounter()
                       .Name("vllm:admission_rejections_total")
                       .Help("Requests refused with 429 or 503.")
                       .Labels(labels)
                       .Register(registry)
                       .Add({})) {}

  prometheus::Histogram& histogram(const HistogramSpec& spec) {
    return prometheus::BuildHistogram()
        .Name(spec.name)
        .Help(spec.help)
        .Labels(labels)
        .Register(registry)
        .Add({}, spec.buckets);
  }

  prometheus::Registry registry;
  Labels labels;
  prometheus::Histogram& ttft;
  prometheus::Histogram& inter_token;
  prometheus::Histogram& e2e;
  prometheus::Histogram& queue;
  prometheus::Histogram& prefill;
  prometheus::Histogram& decode;
  prometheus::Histogram& prompt_tokens;
  prometheus::Histogram& generation_tokens;
  prometheus::Histogram& max_tokens;
  prometheus::Family<prometheus::Counter>& success;
  prometheus::Family<prometheus::Counter>& http;
  prometheus::Counter& rejections;
};

ServeMetrics::ServeMetrics(const std::string& model_name)
    : impl_(std::make_unique<Impl>(model_name)) {}

ServeMetrics::~ServeMetrics() = default;

void ServeMetrics::first_token(double seconds) {
  impl_->ttft.Observe(seconds);
}

void ServeMetrics::next_tokens(double seconds, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) {
    impl_->inter_token.Observe(seconds / static_cast<double>(tokens));
  }
}

void ServeMetrics::finished(const Finished& request) {
  const auto observe = [](prometheus::Histogram& histogram, double seconds) {
    if (seconds >= 0) {
      histogram.Observe(seconds);
    }
  };
  impl_->success.Add({{"finished_reason", request.reason}}).Increment();
  observe(impl_->e2e, request.e2e_s);
  observe(impl_->queue, request.queue_s);
  observe(impl_->prefill, request.prefill_s);
  observe(impl_->decode, request.decode_s);
  impl_->prompt_tokens.Observe(static_cast<double>(request.prompt_tokens));
  impl_->generation_tokens.Observe(static_cast<double>(request.generation_tokens));
  impl_->max_tokens.Observe(static_cast<double>(request.max_tokens));
}

void ServeMetrics::http_answer(const std::string& path, int status) {
  impl_->http.Add({{"path", path}, {"status", std::to_string(status)}}).Increment();
}

void ServeMetrics::refused() {
  impl_->rejections.Increment();
}

namespace {

class SnapshotFamilies {
 public:
  explicit SnapshotFamilies(const prometheus::Labels& labels) {
    for (const auto& label : labels) {
      prometheus::ClientMetric::Label one;
      one.name = label.first;
      one.value = label.second;
      labels_.push_back(one);
    }
  }

  struct Sample {
    const char* name;
    const char* help;
    double value;
  };
  void gauge(const Sample& sample) {
    prometheus::ClientMetric metric;
    metric.gauge.value = sample.value;
    add(sample, prometheus::MetricType::Gauge, metric);
  }
  void counter(const Sample& sample) {
    prometheus::ClientMetric metric;
    metric.counter.value = sample.value;
    add(sample, prometheus::MetricType::Counter, metric);
  }
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  void add(const Sample& sample, prometheus::MetricType type, prometheus::ClientMetric& metric) {
    metric.label = labels_;
    prometheus::MetricFamily family;
    family.name = sample.name;
    family.help = sample.help;
    family.type = type;
    family.metric.push_back(metric);
    families_.push_back(std::move(family));
  }

  std::vector<prometheus::ClientMetric::Label> labels_;
  std::vector<prometheus::MetricFamily> families_;
};

void add_engine(const EngineStats& stats, SnapshotFamilies& out) {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const int64_t used = stats.blocks_total - stats.blocks_free;
  out.gauge({"vllm:num_requests_running", "Requests in the batch.", real(stats.running)});
  out.gauge({"vllm:num_requests_waiting", "Requests in the queue.", real(stats.waiting)});
  out.gauge({"vllm:kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.",
             stats.blocks_total > 0 ? real(used) / real(stats.blocks_total) : 0});
  out.counter({"vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
               real(stats.prefix_queries)});
  out.counter({"vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
               real(stats.prefix_hits)});
  out.counter({"vllm:num_preemptions_total", "Requests put back into the queue for want of blocks.",
               real(stats.preemptions)});
  out.counter({"vllm:prompt_tokens_total", "Prompt tokens processed.", real(stats.prompt_tokens)});
  out.counter({"vllm:generation_tokens_total", "Tokens generated.", real(stats.generated_tokens)});
  out.gauge({"plait:kv_blocks_total", "KV blocks.", real(stats.blocks_total)});
  out.gauge({"plait:kv_blocks_free", "KV blocks that no request holds.", real(stats.blocks_free)});
  out.gauge({"plait:kv_block_tokens", "Tokens of a KV block.", real(stats.block_tokens)});
  out.gauge({"plait:admission_limit", "Requests that may run at once at present.",
             real(stats.max_concurrency)});
  out.counter({"plait:engine_steps_total", "Steps of the engine.", real(stats.steps)});
  out.gauge({"plait:engine_step_age_seconds", "Since the last finished step, while there is work.",
             stats.step_age_s});
  out.gauge({"plait:engine_ready", "1: a request would be accepted.",
             stats.ready && !stats.draining && stats.failure.empty() ? 1.0 : 0.0});
}

}  // namespace

std::string ServeMetrics::text(const Snapshot& snapshot) const {
  SnapshotFamilies families(impl_->labels);
  add_engine(snapshot.engine, families);
  families.gauge(
      {"plait:http_connections", "Open connections.", static_cast<double>(snapshot.connections)});
  families.gauge({"plait:http_requests_active", "Requests that are being answered.",
                  static_cast<double>(snapshot.active_requests)});
  std::vector<prometheus::MetricFamily> all = families.take();
  for (prometheus::MetricFamily& family : impl_->registry.Collect()) {
    all.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace plait
