// Requests of the OpenAI API (with the extensions that vLLM's clients send), checked field by
// field. Nothing here knows of tokens' texts or of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/request.h"

namespace plait {

// Beyond these a request is refused. The sampler's ranges: sampling_check.h.
inline constexpr int64_t kMostChoices = 64;  // prompts x n
inline constexpr int64_t kMostStops = 16;
inline constexpr int64_t kLongestStop = 1024;  // bytes

// What chat and plain completions have in common.
struct OpenAiRequest {
  std::string model;  // empty: not given
  int64_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  SamplingParams sampling;            // max_tokens: see below; num_logprobs is set
  std::optional<int64_t> max_tokens;  // absent: what the context allows (chat), 16 (completions)
  std::vector<std::string> stops;
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool add_special_tokens = true;
  bool echo = false;  // completions only
  int priority = 0;
  double deadline_s = 0;  // extension: the client's own limit

  // Chat only. The pointers lead into the body.
  const Json* messages = nullptr;
  const Json* tools = nullptr;            // null: none, or tool_choice "none"
  std::shared_ptr<Json> template_kwargs;  // null, or an object
  bool add_generation_prompt = true;
  bool parallel_tool_calls = true;
  bool include_reasoning = true;

  // Completions only: each prompt is a text or token ids.
  struct Prompt {
    std::string text;
    std::vector<int32_t> ids;
    bool is_text = false;
  };
  std::vector<Prompt> prompts;
};

// `body` must outlive the result. `defaults`: of the sampling parameters that a client leaves out.
// Errors: ApiError 400 naming the field.
OpenAiRequest parse_chat_request(const Json& body, const SamplingParams& defaults);
OpenAiRequest parse_completion_request(const Json& body, const SamplingParams& defaults);

// messages as a chat request must have them: a list with at least one object, known roles, contents
// that are text. Errors: as above.
void check_chat_messages(const Json& messages);
void check_chat_tools(const Json& tools);

// A list of token ids (not yet held against a vocabulary). Errors: as above.
std::vector<int32_t> parse_token_ids(const Json& list, const std::string& field);

// POST /tokenize: exactly one of `prompt` and `messages`.
struct TokenizeRequest {
  std::string model;
  std::optional<std::string> prompt;
  const Json* messages = nullptr;
  const Json* tools = nullptr;
  std::shared_ptr<Json> template_kwargs;
  bool add_generation_prompt = true;
  bool add_special_tokens = true;
  bool return_token_texts = false;
};
TokenizeRequest parse_tokenize_request(const Json& body);

}  // namespace plait
