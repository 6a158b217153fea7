// Ranges of what a client may ask of the sampler, checked before a request reaches the queue.
#pragma once

#include <optional>
#include <string>

#include "serve/request.h"

namespace plait {

struct FieldProblem {
  std::string field;    // as clients spell it: "top_p", "logit_bias"
  std::string message;  // what was given and what is allowed
};

constexpr int kMostLogprobs = 20;
constexpr int kMostLogitBiases = 1024;
constexpr int kMostStopTokens = 256;

// The first field out of its range, or nothing. Cheap whatever the client sent.
std::optional<FieldProblem> check_sampling(const SamplingParams& params,
                                           const EngineLimits& limits);

}  // namespace plait
