#include "serve/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace plait {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Guesses at the weight (relative to the best token's) below which top_p cuts.
constexpr std::array<float, 3> kWeightGuesses = {1e-3F, 1e-6F, 0};

// exp(x) for x <= 0 to 1e-7 relative; 0 below -87, and for -inf. Plain arithmetic, so that the
// compiler vectorises the loops and every machine gives the same bits.
inline float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  const float clamped = x > -87.0F ? x : -87.0F;
  const auto exponent = static_cast<int32_t>(clamped * kLog2E - 0.5F);
  const auto power = static_cast<float>(exponent);
  const float r = clamped - power * kLn2High - power * kLn2Low;
  float value = 1.9875691500e-4F;
  value = value * r + 1.3981999507e-3F;
  value = value * r + 8.3334519073e-3F;
  value = value * r + 4.1665795894e-2F;
  value = value * r + 1.6666665459e-1F;
  value = value * r + 5.0000001201e-1F;
  value = value * r * r + r + 1.0F;
  const float scaled = value * std::bit_cast<float>((exponent + 127) << 23);
  return x > -87.0F ? scaled : 0.0F;
}

bool is_better(float a_logit, int32_t a, float b_logit, int32_t b) {
  return a_logit != b_logit ? a_logit > b_logit : a < b;
}

int32_t best_token(std::span<const float> logits) {
  // Independent maxima, so that the loop vectorises; then the first place of the largest.
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(kNever);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < logits.size(); ++i) {
    lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  }
  const float best = *std::ranges::max_element(lanes);
  const auto found = std::ranges::find(logits, best);
  return found == logits.end() ? 0 : static_cast<int32_t>(found - logits.begin());
}

// log of the sum of exp, in fixed order.
double log_sum_exp(std::span<const float> logits) {
  const float best = logits[static_cast<size_t>(best_token(logits))];
  double sum = 0;
  for (const float logit : logits) {
    if (logit > kNever) {
      sum += exp_of_negative(logit - best);
    }
  }
  return static_cast<double>(best) + std::log(sum);
}

}  // namespace

void Sampler::select_best(std::span<const float> logits, int64_t count) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return is_better(a.logit, a.token, b.logit, b.token);
  };
  // A heap of the best so far, its worst in front.
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate candidate{logits[i], static_cast<int32_t>(i)};
    if (static_cast<int64_t>(candidates_.size()) < count) {
      candidates_.push_back(candidate);
      std::ranges::push_heap(candidates_, better);
    } else if (better(candidate, candidates_.front())) {
      std::ranges::pop_heap(candidates_, better);
      candidates_.back() = candidate;
      std::ranges::push_heap(candidates_, better);
    }
  }
  std::ranges::sort_heap(candidates_, better);
}

void Sampler::fill_logprobs(std::span<const float> logits, int count, GeneratedToken& out) {
  const double total = log_sum_exp(logits);
  out.logprob = static_cast<float>(logits[static_cast<size_t>(out.token)] - total);
  if (count > 0) {
    select_best(logits, std::min<int64_t>(count, static_cast<int64_t>(logits.size())));
    for (const Candidate& candidate : candidates_) {
      out.top.push_back({candidate.token, static_cast<float>(candidate.logit - total)});
    }
  }
}

void Sampler::apply_penalties(std::span<float> logits, const SamplingParams& params,
                              const SamplingContext& context) {
  for (const auto& [token, bias] : params.logit_bias) {
    logits[static_cast<size_t>(token)] += bias;
  }
  if (static_cast<int64_t>(context.generated.size()) < params.min_tokens) {
    for (const int32_t token : context.stop_tokens) {
      logits[static_cast<size_t>(token)] = kNever;
    }
  }
  const bool repetition = params.repetition_penalty != 1;
  if (!repetition && params.presence_penalty == 0 && params.frequency_penalty == 0) {
    return;
  }
  counts_.resize(logits.size());
  for (const int32_t token : context.generated) {
    ++counts_[static_cast<size_t>(token)];
  }
  const auto penalise = [&](int32_t token) {
    int32_t& count = counts_[static_cast<size_t>(token)];
    if (count < 0) {
      return;  // seen before
    }
    float& logit = logits[static_cast<size_t>(token)];
    if (repetition) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    if (count > 0) {
      logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
    }
    count = -1;
  };
  std::ranges::for_each(context.generated, penalise);
  if (repetition) {
    std::ranges::for_each(context.prompt, penalise);
    for (const int32_t token : context.prompt) {
      counts_[static_cast<size_t>(token)] = 0;
    }
  }
  for (const int32_t token : context.generated) {
    counts_[static_cast<size_t>(token)] = 0;
  }
}

void Sampler::fill_weights(std::span<const float> logits, float temperature) {
  const float best = logits[static_cast<size_t>(best_token(logits))];
  const float scale = 1 / temperature;
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = exp_of_negative((logits[i] - best) * scale);
  }
}

void Sampler::select_top_k(std::span<const float> logits, const SamplingParams& params) {
  select_best(logits, params.top_k);
  const float best = candidates_.front().logit;
  for (Candidate& candidate : candidates_) {
    candidate.weight = exp_of_negative((candidate.logit - best) / params.temperature);
  }
}

void Sampler::select_above(std::span<const float> logits, float least_weight) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (weights_[i] >= least_weight && weights_[i] > 0) {
      candidates_.push_back({logits[i], static_cast<int32_t>(i), weights_[i]});
    }
  }
}

void Sampler::select_nucleus(std::span<const float> logits, const SamplingParams& params) {
  fill_weights(logits, params.temperature);
  if (params.top_p >= 1) {
    select_above(logits, params.min_p);
    return;
  }
  double total = 0;
  for (const float weight : weights_) {
    total += weight;
  }
  // Only the best part of the list has to be put in order: guess how much, then look.
  for (const float least : kWeightGuesses) {
    select_above(logits, std::max(least, params.min_p));
    double sum = 0;
    for (const Candidate& candidate : candidates_) {
      sum += candidate.weight;
    }
    if (sum >= params.top_p * total || least <= params.min_p) {
      break;
    }
  }
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return is_better(a.logit, a.token, b.logit, b.token);
  });
  keep_top_p(params, total);
}

void Sampler::keep_top_p(const SamplingParams& params, double total) {
  double sum = 0;
  size_t kept = 0;
  for (const Candidate& candidate : candidates_) {
    if (kept > 0 && (sum >= params.top_p * total || candidate.weight < params.min_p)) {
      break;
    }
    sum += candidate.weight;
    ++kept;
  }
  candidates_.resize(kept);
}

int32_t Sampler::draw(std::span<const float> logits, const SamplingParams& params,
                      const SamplingContext& context) {
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(logits.size())) {
    select_top_k(logits, params);
    double total = 0;
    for (const Candidate& candidate : candidates_) {
      total += candidate.weight;
    }
    keep_top_p(params, total);
  } else {
    select_nucleus(logits, params);
  }
  double total = 0;
  for (const Candidate& candidate : candidates_) {
    total += candidate.weight;
  }
  const uint64_t bits = random_bits(context.seed, hash_name("sample"), context.generated.size());
  const double target = static_cast<double>(bits >> 11) * 0x1p-53 * total;
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (sum > target) {
      return candidate.token;
    }
  }
  return candidates_.empty() ? 0 : candidates_.back().token;
}

GeneratedToken Sampler::sample(std::span<float> logits, const SamplingParams& params,
                               const SamplingContext& context) {
  GeneratedToken out;
  for (float& logit : logits) {
    logit = std::isnan(logit) ? kNever : logit;
  }
  if (params.num_logprobs >= 0) {
    original_.assign(logits.begin(), logits.end());
  }
  apply_penalties(logits, params, context);
  out.token = params.greedy() ? best_token(logits) : draw(logits, params, context);
  if (params.num_logprobs >= 0) {
    fill_logprobs(original_, params.num_logprobs, out);
  }
  return out;
}

}  // namespace plait
