// The costly part of a request before it reaches the engine: JSON, checks, template, tokens. Runs
// on a worker thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/api_model.h"
#include "serve/openai_request.h"

namespace plait {

struct PreparedRequest {
  OpenAiRequest options;  // without its pointers into the body
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;  // texts of the prompts, with echo only
  std::optional<ReasoningStart> reasoning;
  bool tools = false;
  // For prompt i: options.sampling with max_tokens cut to the context.
  SamplingParams sampling_of(size_t prompt, int64_t choice) const;
  std::vector<int64_t> max_tokens;
};

struct PrepareContext {
  const ApiModel* model = nullptr;
  const std::vector<std::string>* model_names = nullptr;
};

// Thread-safe. Errors: ApiError, and Error kInvalidArgument of the template.
PreparedRequest prepare_chat(const std::string& body, const PrepareContext& context);
PreparedRequest prepare_completion(const std::string& body, const PrepareContext& context);

// The bodies of the answers of POST /tokenize and /detokenize. Errors: as above.
std::string answer_tokenize(const std::string& body, const PrepareContext& context);
std::string answer_detokenize(const std::string& body, const PrepareContext& context);

}  // namespace plait
