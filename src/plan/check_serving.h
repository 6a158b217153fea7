// The part of plait plan check that judges a serving command.
#pragma once

#include "plan/check.h"
#include "plan/readers/launch.h"

namespace plait {

// Head divisibility, kv heads, length, and whether weights and the KV cache of one full-length
// sequence fit. Errors: kInvalidArgument naming file and line.
CheckReport check_serving(const Launch& launch, const std::string& origin,
                          const CheckOptions& options);

// Bytes of KV cache per token on one rank.
double kv_bytes_on_device(const ModelConfig& model, int64_t tp, int64_t pp, double element_bytes);

}  // namespace plait
