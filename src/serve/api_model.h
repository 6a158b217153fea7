// What the API answers with: an engine and the text side of its model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/request.h"
#include "text/chat_template.h"
#include "text/reasoning_parser.h"
#include "text/tokenizer.h"

namespace plait {

// The parts must outlive every answer that is made with them.
struct ApiModel {
  GenerationService* service = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: chat is refused
  SamplingParams defaults = {};  // of what clients leave out (generation_config.json)
  bool parse_reasoning = true;   // <think> goes to reasoning_content
  bool parse_tools = true;       // <tool_call> becomes tool_calls
};

}  // namespace plait
