#include "plan/serve_estimate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/comm_model.h"
#include "plan/layer_work.h"
#include "plan/parameter_split.h"
#include "plan/report.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

// Host time of a decode step per layer and per collective in eager mode. Fitted to two reports on
// the 910B: Qwen2.5-7B 32 tok/s on one device and 22 with tp 2 (lmdeploy 2534).
constexpr double kEagerLayer = 1.05e-3;
constexpr double kEagerCollective = 0.25e-3;
// As one captured graph; assumed.
constexpr double kGraphLayer = 0.04e-3;
// Above this share of the saturation rate queues dominate and TTFT is not given.
constexpr double kTrusted = 0.8;

class ServeModel {
 public:
  explicit ServeModel(const ServeRequest& r) : r_(r) {
    TrainJob job;
    job.model = r.model;
    job.layout.tp = r.tp;
    job.layout.pp = r.pp;
    if (r.model.num_layers % r.pp != 0) {
      for (int s = 0; s < r.pp; ++s) {
        job.layout.stage_layers.push_back(r.model.num_layers / r.pp +
                                          (s < r.model.num_layers % r.pp ? 1 : 0));
      }
    }
    job.vocab_multiple = 1;
    for (const StageParameters& stage : stage_split(job, section_counts(job)).parameters) {
      parameters_ = std::max(parameters_, stage.total());
      all_ += stage.total();
    }
    const auto table = make_parameter_table(r.model, {});
    active_ = static_cast<double>(count_active_parameters(table, r.model));
  }

  double weights() const { return parameters_ * static_cast<double>(r_.weight_bytes); }

  double kv_token_device() const {
    const ModelConfig& m = r_.model;
    const double layers = std::ceil(static_cast<double>(m.num_layers) / r_.pp);
    const auto bytes = static_cast<double>(r_.kv_bytes);
    if (m.mla.kv_lora_rank > 0) {
      return layers * static_cast<double>(m.mla.kv_lora_rank + m.mla.rope_head_dim) * bytes;
    }
    const double heads = std::max(1.0, static_cast<double>(m.num_kv_heads) / r_.tp);
    return layers * 2 * heads * static_cast<double>(m.head_dim) * bytes;
  }

  // Seconds of one prompt through all stages.
  double prefill(double tokens) const {
    const Chip& chip = r_.cluster.chip;
    const auto heads = static_cast<double>(r_.model.num_heads * r_.model.head_dim);
    const auto layers = static_cast<double>(r_.model.num_layers);
    const double products = 2 * active_ * tokens / r_.tp;
    const double attention = 2 * tokens * tokens * heads * layers / r_.tp;
    const double gemm = chip.gemm_efficiency.value * products / layers /
                        (products / layers + 7 * chip.gemm_half_flops.value);
    const double peak = chip.peak_16bit.value;
    const double device = products / (peak * gemm) +
                          attention / (peak * chip.attention_efficiency.value) +
                          layers * 2 * all_reduce(tokens);
    return std::max(device, host());
  }

  // Seconds of one decode step of `batch` sequences of `depth` tokens each.
  double decode(double batch, double depth) const {
    const Chip& chip = r_.cluster.chip;
    const double bandwidth =
        chip.memory_bandwidth.value * std::max(0.6, chip.memory_efficiency.value);
    const double read = read_weights(batch) + batch * depth * kv_token_device() * r_.pp;
    const double flops = 2 * active_ * batch / r_.tp;
    const double device =
        std::max(read / bandwidth, flops / (chip.peak_16bit.value * chip.gemm_efficiency.value)) +
        static_cast<double>(r_.model.num_layers) * 2 * all_reduce(batch);
    return std::max(device, host());
  }

  double host() const {
    const auto layers = static_cast<double>(r_.model.num_layers);
    if (r_.graph_mode) {
      return layers * kGraphLayer;
    }
    return layers * (kEagerLayer + (r_.tp > 1 ? 2 * kEagerCollective : 0));
  }

 private:
  // A sparse model reads the experts that its tokens choose.
  double read_weights(double batch) const {
    const double every = all_ * static_cast<double>(r_.weight_bytes);
    if (r_.model.moe.num_experts == 0) {
      return every;
    }
    const double share = std::min(1.0, active_ / (all_ * r_.tp) * batch);
    return every * share;
  }

  double all_reduce(double tokens) const {
    return collective_seconds(r_.cluster, {r_.tp, 1}, CollectiveKind::kAllReduce,
                              tokens * static_cast<double>(r_.model.hidden_size) * 2);
  }

  const ServeRequest& r_;
  double parameters_ = 0;  // of the fullest device
  double all_ = 0;         // of one tp rank, all stages
  double active_ = 0;
};

// Running sequences and the time of a step at a rate, or saturation. A step decodes all running
// sequences and makes room for the prompts that arrived: step = decode(batch) / (1 - rate prefill).
struct Load {
  bool stable = false;
  double batch = 0;
  double step = 0;
};

Load load_at(const ServeModel& model, const ServeRequest& r, double rate, double prefill,
             double most) {
  const double share = rate * prefill;
  Load load;
  if (share >= 1) {
    return load;
  }
  const double depth = static_cast<double>(r.prompt) + static_cast<double>(r.output) / 2;
  double batch = 1;
  for (int i = 0; i < 200; ++i) {
    const double step = model.decode(std::max(1.0, batch), depth) / (1 - share);
    const double next = rate * static_cast<double>(r.output) * step;
    if (next > most) {
      return load;
    }
    if (std::abs(next - batch) < 1e-6 * batch) {
      break;
    }
    batch = next;
  }
  load.stable = true;
  load.batch = batch;
  load.step = model.decode(std::max(1.0, batch), depth) / (1 - share);
  return load;
}

double saturation(const ServeModel& model, const ServeRequest& r, double prefill, double most) {
  double low = 0;
  double high = 1 / prefill;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (load_at(model, r, middle, prefill, most).stable ? low : high) = middle;
  }
  return low;
}

void check(const ServeRequest& r) {
  if (r.prompt < 1 || r.output < 1) {
    throw_error(ErrorCode::kInvalidArgument, "prompt={}, output={}: both must be at least 1",
                r.prompt, r.output);
  }
  if (r.tp < 1 || r.pp < 1 || r.model.num_heads % r.tp != 0 || r.pp > r.model.num_layers) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "tp={}, pp={}: tp must divide the model's {} heads, and pp be at most its {} layers", r.tp,
        r.pp, r.model.num_heads, r.model.num_layers);
  }
  if (r.rate < 0 || r.memory_utilization <= 0 || r.memory_utilization > 1) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "rate={}, memory_utilization={}: allowed are a rate of at least 0 and a share above "
        "0 and up to 1",
        r.rate, r.memory_utilization);
  }
}

}  // namespace

double profile_peak_bytes(const ModelConfig& model) {
  return (model.moe.num_experts > 0 ? 7.4 : 5.2) * kGiB;
}

ServeEstimate estimate_serving(const ServeRequest& r) {
  check(r);
  const ServeModel model(r);
  ServeEstimate e;
  const double memory = r.cluster.chip.memory_bytes.value * r.memory_utilization;
  e.weights = model.weights();
  e.activations = profile_peak_bytes(r.model);
  e.kv_per_token_device = model.kv_token_device();
  e.kv_per_token = static_cast<double>(kv_bytes_per_token(r.model, r.kv_bytes));
  e.kv_capacity = memory - e.weights - e.activations;
  if (e.kv_capacity <= 0) {
    const double needed = e.weights * r.tp * r.pp / std::max(1.0, memory - e.activations);
    throw_error(
        ErrorCode::kInvalidArgument,
        "tp={}, pp={}: {} of weights and {} of activations on a device exceed {:.0f} % of its "
        "{}; at least {:.0f} devices are needed",
        r.tp, r.pp, bytes_text(e.weights), bytes_text(e.activations), 100 * r.memory_utilization,
        bytes_text(r.cluster.chip.memory_bytes.value), std::ceil(needed));
  }
  e.max_tokens = static_cast<int64_t>(e.kv_capacity / e.kv_per_token_device);
  const int64_t per_request = r.prompt + r.output;
  e.concurrent = std::min(r.max_num_seqs, e.max_tokens / per_request);
  e.prefill_s = model.prefill(static_cast<double>(r.prompt));
  const double depth = static_cast<double>(r.prompt) + static_cast<double>(r.output) / 2;
  e.decode_s = model.decode(1, depth);
  e.decode_full_s = model.decode(static_cast<double>(std::max<int64_t>(1, e.concurrent)), depth);
  e.host_s = model.host();
  e.weights_rule = 1.2 * e.weights;
  e.kv_rule = 2.0 * static_cast<double>(r.model.num_layers * r.model.hidden_size * r.kv_bytes);
  if (e.concurrent < 1) {
    return e;
  }
  e.saturation_rate = saturation(model, r, e.prefill_s, static_cast<double>(e.concurrent));
  e.saturated = r.rate >= e.saturation_rate;
  if (r.rate > 0 && !e.saturated) {
    const Load load = load_at(model, r, r.rate, e.prefill_s, static_cast<double>(e.concurrent));
    e.batch = load.batch;
    e.tpot_s = load.step;
    if (r.rate < kTrusted * e.saturation_rate) {
      // M/D/1 waiting of the prompts behind each other, and half a step until the next begins if
      // one is running.
      const double share = r.rate * e.prefill_s;
      e.ttft_s = e.prefill_s + e.prefill_s * share / (2 * (1 - share)) +
                 load.step / 2 * std::min(1.0, load.batch);
    }
  }
  return e;
}

std::string serve_text(const ServeRequest& r, const ServeEstimate& e) {
  std::string text =
      fmt::format("{} on {} x {} (tp {}, pp {}), prompts of {} and answers of {} tokens\n",
                  r.model_name, r.tp * r.pp, r.cluster.chip.name, r.tp, r.pp, r.prompt, r.output);
  text += fmt::format(
      "Memory of a device: {} weights, {} peak activations, {} for the cache ({:.0f} % of {})\n",
      bytes_text(e.weights), bytes_text(e.activations), bytes_text(e.kv_capacity),
      100 * r.memory_utilization, bytes_text(r.cluster.chip.memory_bytes.value));
  text += fmt::format(
      "KV cache: {:.0f} B a token ({:.0f} B on a device), {} tokens, {} sequences at once{}\n",
      e.kv_per_token, e.kv_per_token_device, e.max_tokens, e.concurrent,
      e.concurrent == r.max_num_seqs ? " (limited by max_num_seqs)" : "");
  text += fmt::format("Alone: TTFT {}, TPOT {}; {} sequences: {} a step{}\n",
                      format_seconds(e.prefill_s), format_seconds(e.decode_s), e.concurrent,
                      format_seconds(e.decode_full_s),
                      e.decode_s <= e.host_s * 1.001 ? "; a lone sequence waits for the host" : "");
  if (e.concurrent < 1) {
    text += "Not even one request fits in the cache: shorten it, or use more devices.\n";
  } else if (r.rate > 0 && e.saturated) {
    text += fmt::format(
        "{:.3g} requests/s: saturated at {:.3g} req/s; queues grow without bound, so "
        "there is no TTFT to give. Use {:.0f} replicas.\n",
        r.rate, e.saturation_rate, std::ceil(r.rate / (kTrusted * e.saturation_rate)));
  } else if (r.rate > 0) {
    text += fmt::format("{:.3g} requests/s: {:.1f} sequences at once, TPOT {}", r.rate, e.batch,
                        format_seconds(e.tpot_s));
    text += e.ttft_s > 0 ? fmt::format(", TTFT {}\n", format_seconds(e.ttft_s))
                         : "; too close to saturation for a TTFT\n";
  }
  text += fmt::format("Saturates at {:.3g} requests/s ({:.0f} tokens/s out)\n", e.saturation_rate,
                      e.saturation_rate * static_cast<double>(r.output));
  text += fmt::format(
      "Rules of thumb: weights x 1.2 = {} against {} used ({:+.0f} %); 2 x layers x hidden x bytes "
      "= "
      "{:.0f} B a token against {:.0f} ({:+.0f} %)\n",
      bytes_text(e.weights_rule), bytes_text(e.weights + e.activations),
      100 * (e.weights_rule / (e.weights + e.activations) - 1), e.kv_rule, e.kv_per_token,
      100 * (e.kv_rule / e.kv_per_token - 1));
  return text;
}

}  // namespace plait
