// From the logits of one position to a token. A pure function of the logits, the request and its
// tokens so far: what else runs in the batch, and how often the request was preempted, cannot
// change a draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "serve/request.h"

namespace plait {

// The tokens that the penalties look at.
struct SamplingContext {
  std::span<const int32_t> prompt = {};
  std::span<const int32_t> generated = {};
  std::span<const int32_t> stop_tokens = {};  // not before min_tokens: EOS and the request's own
  uint64_t seed = 0;
};

// Keeps its buffers between calls. One thread at a time.
class Sampler {
 public:
  // Order: logprobs of the model's own logits; then logit_bias, min_tokens, penalties (repetition
  // over prompt and output, as HF; presence and frequency over the output, as OpenAI), temperature,
  // top_k, top_p, min_p; of equal logits the smaller id comes first. `logits` (of the vocabulary,
  // without padding) is overwritten. NaN counts as -inf; a row of nothing else gives token 0.
  GeneratedToken sample(std::span<float> logits, const SamplingParams& params,
                        const SamplingContext& context);

 private:
  struct Candidate {
    float logit;
    int32_t token;
    float weight = 0;  // exp of the distance to the best logit
  };
  void fill_logprobs(std::span<const float> logits, int count, GeneratedToken& out);
  void apply_penalties(std::span<float> logits, const SamplingParams& params,
                       const SamplingContext& context);
  // The `count` best, best first.
  void select_best(std::span<const float> logits, int64_t count);
  // candidates_ := what the parameters leave, with weights.
  void select_top_k(std::span<const float> logits, const SamplingParams& params);
  void select_nucleus(std::span<const float> logits, const SamplingParams& params);
  void select_above(std::span<const float> logits, float least_weight);
  void keep_top_p(const SamplingParams& params, double total);
  void fill_weights(std::span<const float> logits, float temperature);
  int32_t draw(std::span<const float> logits, const SamplingParams& params,
               const SamplingContext& context);

  std::vector<Candidate> candidates_;
  std::vector<float> weights_;
  std::vector<float> original_;
  std::vector<int32_t> counts_;  // by token; zero between calls
};

}  // namespace plait
