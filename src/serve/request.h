// What the HTTP side and the engine say to each other: token ids in, token ids out. Text
// (templates, detokenisation, stop strings) stays on the HTTP side; blocks, batches and ranks on
// the engine's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plait {

// Logits divided by less would leave the range of a float.
constexpr float kLeastTemperature = 1e-5F;

// Ranges are checked by check_sampling before a request reaches the queue.
struct SamplingParams {
  float temperature = 1;  // below kLeastTemperature: greedy
  float top_p = 1;
  float min_p = 0;
  int64_t top_k = 0;  // 0: all
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::optional<uint64_t> seed = {};  // absent: drawn by the engine
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  std::vector<int32_t> stop_token_ids = {};  // beside the model's own EOS ids
  bool ignore_eos = false;
  int64_t min_tokens = 0;
  int64_t max_tokens = 16;
  int num_logprobs = -1;  // -1: none; n: of the chosen token and the n most likely ones

  bool greedy() const { return temperature < kLeastTemperature; }
};

struct GenerationRequest {
  std::vector<int32_t> prompt = {};
  SamplingParams sampling = {};
  int priority = 0;          // smaller runs first, as in vLLM
  double deadline_s = 0;     // from submission; 0: none
  double queue_limit_s = 0;  // longest wait before the first step; 0: none
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct GeneratedToken {
  int32_t token = 0;
  float logprob = 0;                   // only with num_logprobs >= 0
  std::vector<TokenLogprob> top = {};  // descending
};

enum class FinishReason : uint8_t {
  kNone,       // goes on
  kStop,       // an EOS or stop token, which is the last of the tokens
  kLength,     // max_tokens or the model's length
  kCancelled,  // by cancel()
  kDeadline,   // deadline_s or queue_limit_s passed
  kError,      // the engine failed; see error
};

struct RequestUpdate {
  std::vector<GeneratedToken> tokens;  // new since the last update; may be empty at the end
  FinishReason finish = FinishReason::kNone;
  std::string error;
  int64_t cached_prompt_tokens = 0;  // found in the prefix cache
  double queue_s = -1;               // from submission to the first step; < 0: not known yet
};

// Called on the engine's thread, in order, until an update whose finish is not kNone. Must not
// block and must not throw.
using UpdateSink = std::function<void(RequestUpdate)>;

enum class Admission : uint8_t {
  kAccepted,
  kQueueFull,    // 429
  kUnavailable,  // 503: loading, draining or unhealthy
};

// A snapshot for /metrics and /health.
struct EngineStats {
  int64_t running = 0, waiting = 0;
  int64_t blocks_total = 0, blocks_free = 0, block_tokens = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens
  int64_t preemptions = 0, rejections = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
  double step_s = 0, kernel_s = 0;  // seconds of all steps; of them, in kernels and transfers
  int64_t max_concurrency = 0;      // the admission controller's present limit
  double step_age_s = 0;            // since the last finished step; 0 while there is no work
  bool ready = false;               // warmed up
  bool draining = false;
  std::string failure;  // empty while healthy; else what broke, naming the rank
};

struct EngineLimits {
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;  // ids that may be sampled and that a prompt may hold
  std::vector<int32_t> eos_token_ids = {};
};

// Implemented by Engine; HTTP tests stand in their own. All calls are thread-safe and return at
// once.
class GenerationService {
 public:
  virtual ~GenerationService() = default;
  struct Submission {
    Admission admission = Admission::kAccepted;
    uint64_t id = 0;           // for cancel, if accepted
    double retry_after_s = 1;  // else: when to try again
  };
  // Errors: kInvalidArgument for what the caller should have refused: no sink, an empty prompt, a
  // prompt that with one more token does not fit max_model_len, ids that are not below vocab_size,
  // max_tokens below 1.
  virtual Submission submit(GenerationRequest request, UpdateSink sink) = 0;
  // The request's blocks are free within a step. Unknown and finished ids are ignored.
  virtual void cancel(uint64_t id) = 0;
  // No new work from now on; running requests go on.
  virtual void drain() = 0;
  virtual EngineStats stats() const = 0;
  virtual const EngineLimits& limits() const = 0;
};

}  // namespace plait
