#include "serve/sampling_check.h"

#include <cmath>

#include <fmt/format.h>

namespace plait {
namespace {

struct Range {
  const char* field;
  double value;
  double least;
  double most;
  bool above_least = false;  // `least` itself is out
};

std::optional<FieldProblem> check_range(const Range& range) {
  const bool low = range.above_least ? range.value <= range.least : range.value < range.least;
  if (std::isfinite(range.value) && !low && range.value <= range.most) {
    return std::nullopt;
  }
  return FieldProblem{
      range.field,
      fmt::format("{} is {}; it must be {} {} and at most {}", range.field, range.value,
                  range.above_least ? "above" : "at least", range.least, range.most)};
}

bool in_vocabulary(int32_t token, const EngineLimits& limits) {
  return token >= 0 && token < limits.vocab_size;
}

std::optional<FieldProblem> check_tokens(const SamplingParams& params, const EngineLimits& limits) {
  if (params.logit_bias.size() > kMostLogitBiases) {
    return FieldProblem{"logit_bias",
                        fmt::format("logit_bias has {} entries; at most {} are allowed",
                                    params.logit_bias.size(), kMostLogitBiases)};
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (!in_vocabulary(token, limits)) {
      return FieldProblem{"logit_bias", fmt::format("logit_bias names token {}; ids are 0 to {}",
                                                    token, limits.vocab_size - 1)};
    }
    if (auto problem = check_range({"logit_bias", bias, -100, 100})) {
      return problem;
    }
  }
  if (params.stop_token_ids.size() > kMostStopTokens) {
    return FieldProblem{"stop_token_ids",
                        fmt::format("stop_token_ids has {} entries; at most {} are allowed",
                                    params.stop_token_ids.size(), kMostStopTokens)};
  }
  for (const int32_t token : params.stop_token_ids) {
    if (!in_vocabulary(token, limits)) {
      return FieldProblem{"stop_token_ids",
                          fmt::format("stop_token_ids names token {}; ids are 0 to {}", token,
                                      limits.vocab_size - 1)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FieldProblem> check_sampling(const SamplingParams& params,
                                           const EngineLimits& limits) {
  const auto vocabulary = static_cast<double>(limits.vocab_size);
  const Range ranges[] = {
      {"temperature", params.temperature, 0, 2},
      {"top_p", params.top_p, 0, 1, true},
      {"min_p", params.min_p, 0, 1},
      {"top_k", static_cast<double>(params.top_k), 0, std::max(vocabulary, 1e6)},
      {"repetition_penalty", params.repetition_penalty, 0.01, 10},
      {"presence_penalty", params.presence_penalty, -2, 2},
      {"frequency_penalty", params.frequency_penalty, -2, 2},
      {"max_tokens", static_cast<double>(params.max_tokens), 1, 9e18},
      {"min_tokens", static_cast<double>(params.min_tokens), 0,
       static_cast<double>(params.max_tokens)},
      {"logprobs", static_cast<double>(params.num_logprobs), -1, kMostLogprobs},
  };
  for (const Range& range : ranges) {
    if (auto problem = check_range(range)) {
      return problem;
    }
  }
  return check_tokens(params, limits);
}

}  // namespace plait
