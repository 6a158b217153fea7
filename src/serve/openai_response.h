// Answers of the OpenAI API as JSON text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/output_text.h"
#include "serve/request.h"

namespace plait {

// What all chunks of an answer share.
struct AnswerHead {
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  std::string model;
  int64_t created_s = 0;
  bool chat = false;
};

struct AnswerUsage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t reasoning_tokens = 0;
};

// Everything of one choice so far.
struct AnswerChoice {
  int64_t index = 0;
  OutputDelta text = {};                    // calls[i] is call i, whole
  std::vector<GeneratedToken> tokens = {};  // kept for logprobs only
  std::string finish_reason = {};
  std::optional<std::string> stop_string = {};
};

// "stop", "length", "tool_calls"; empty for kNone.
std::string finish_reason_name(FinishReason reason, int64_t num_calls);
// "call_" and 24 digits, different for each (answer, choice, call).
std::string tool_call_id(const AnswerHead& head, int64_t choice, int64_t call);

// With logprobs: the forms of chat ({"content": [...]}) and of completions ({"tokens", ...}).
struct LogprobsOptions {
  const Tokenizer* tokenizer = nullptr;  // null: no logprobs
  int64_t text_offset = 0;               // of the first token, completions only
};

std::string answer_json(const AnswerHead& head, const std::vector<AnswerChoice>& choices,
                        const AnswerUsage& usage, const LogprobsOptions& logprobs);

struct ChunkOptions {
  bool first = false;       // of its choice: names the role
  bool usage_null = false;  // "usage": null, as the API has it when usage will follow
  std::optional<AnswerUsage> usage = {};
  LogprobsOptions logprobs = {};
};
// One server-sent event's data: what `choice` (here: a delta) adds.
std::string chunk_json(const AnswerHead& head, const AnswerChoice& choice,
                       const ChunkOptions& options);
// The last one when usage was asked for: no choices.
std::string usage_chunk_json(const AnswerHead& head, const AnswerUsage& usage);

// UTF-8 characters, as text_offset counts them.
int64_t count_characters(std::string_view text);

std::string model_list_json(const std::vector<std::string>& names, int64_t created_s,
                            int64_t max_model_len);
std::string model_json(const std::string& name, int64_t created_s, int64_t max_model_len);

}  // namespace plait
