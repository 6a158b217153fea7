#include "serve/openai_response.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/json_full.h"
#include "base/rng.h"
#include "base/utf8.h"

namespace plait {
namespace {

// JSON has no infinity; this is what the API shows for a token that cannot be drawn.
constexpr double kLeastLogprob = -9999.0;

double shown_logprob(float value) {
  return std::isfinite(value) ? std::max(static_cast<double>(value), kLeastLogprob) : kLeastLogprob;
}

Json chat_logprob(const TokenLogprob& token, const Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char c : tokenizer.token_bytes(token.token)) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  Json entry;
  entry["token"] = tokenizer.token_text(token.token);
  entry["logprob"] = shown_logprob(token.logprob);
  entry["bytes"] = std::move(bytes);
  return entry;
}

Json chat_logprobs(const std::vector<GeneratedToken>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const GeneratedToken& token : tokens) {
    Json entry = chat_logprob({token.token, token.logprob}, tokenizer);
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back(chat_logprob(other, tokenizer));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  Json logprobs;
  logprobs["content"] = std::move(content);
  logprobs["refusal"] = nullptr;
  return logprobs;
}

// Part of a character is spelt "bytes:\xe2\x82", so that different tokens have different names.
std::string plain_token_name(int32_t token, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (find_invalid_utf8(bytes) == std::string_view::npos) {
    return std::string(bytes);
  }
  std::string name = "bytes:";
  for (const char c : bytes) {
    name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

Json plain_logprobs(const std::vector<GeneratedToken>& tokens, const LogprobsOptions& options) {
  const Tokenizer& tokenizer = *options.tokenizer;
  Json logprobs;
  logprobs["text_offset"] = Json::array();
  logprobs["token_logprobs"] = Json::array();
  logprobs["tokens"] = Json::array();
  logprobs["top_logprobs"] = Json::array();
  int64_t offset = options.text_offset;
  for (const GeneratedToken& token : tokens) {
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) {
      top[plain_token_name(other.token, tokenizer)] = shown_logprob(other.logprob);
    }
    logprobs["text_offset"].push_back(offset);
    logprobs["token_logprobs"].push_back(shown_logprob(token.logprob));
    logprobs["tokens"].push_back(plain_token_name(token.token, tokenizer));
    logprobs["top_logprobs"].push_back(std::move(top));
    offset += count_characters(tokenizer.token_text(token.token));
  }
  return logprobs;
}

Json logprobs_json(bool chat, const AnswerChoice& choice, const LogprobsOptions& options) {
  if (options.tokenizer == nullptr || choice.tokens.empty()) {
    return nullptr;
  }
  return chat ? chat_logprobs(choice.tokens, *options.tokenizer)
              : plain_logprobs(choice.tokens, options);
}

Json usage_json(const AnswerUsage& usage) {
  Json json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  json["completion_tokens_details"]["reasoning_tokens"] = usage.reasoning_tokens;
  return json;
}

Json head_json(const AnswerHead& head, const char* object) {
  Json json;
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created_s;
  json["model"] = head.model;
  return json;
}

Json finish_json(const AnswerChoice& choice) {
  return choice.finish_reason.empty() ? Json(nullptr) : Json(choice.finish_reason);
}

Json stop_json(const AnswerChoice& choice) {
  return choice.stop_string ? Json(*choice.stop_string) : Json(nullptr);
}

Json message_json(const AnswerHead& head, const AnswerChoice& choice) {
  Json message;
  message["role"] = "assistant";
  message["content"] = choice.text.content.empty() && !choice.text.calls.empty()
                           ? Json(nullptr)
                           : Json(choice.text.content);
  if (!choice.text.reasoning.empty()) {
    message["reasoning_content"] = choice.text.reasoning;
  }
  if (!choice.text.calls.empty()) {
    Json calls = Json::array();
    for (const OutputDelta::Call& call : choice.text.calls) {
      Json one;
      one["id"] = tool_call_id(head, choice.index, call.index);
      one["type"] = "function";
      one["function"]["name"] = call.name;
      one["function"]["arguments"] = call.arguments;
      calls.push_back(std::move(one));
    }
    message["tool_calls"] = std::move(calls);
  }
  return message;
}

Json delta_json(const AnswerHead& head, const AnswerChoice& choice, bool first) {
  Json delta = Json::object();
  const OutputDelta& text = choice.text;
  if (first) {
    delta["role"] = "assistant";
  }
  if (!text.reasoning.empty()) {
    delta["reasoning_content"] = text.reasoning;
  }
  if (!text.content.empty() || (text.reasoning.empty() && text.calls.empty())) {
    delta["content"] = text.content;
  }
  if (text.calls.empty()) {
    return delta;
  }
  Json calls = Json::array();
  for (const OutputDelta::Call& call : text.calls) {
    Json one;
    one["index"] = call.index;
    if (call.starts) {
      one["id"] = tool_call_id(head, choice.index, call.index);
      one["type"] = "function";
      one["function"]["name"] = call.name;
    }
    one["function"]["arguments"] = call.arguments;
    calls.push_back(std::move(one));
  }
  delta["tool_calls"] = std::move(calls);
  return delta;
}

}  // namespace

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string finish_reason_name(FinishReason reason, int64_t num_calls) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return num_calls > 0 ? "tool_calls" : "stop";
    default:
      return "length";
  }
}

std::string tool_call_id(const AnswerHead& head, int64_t choice, int64_t call) {
  const uint64_t name = hash_name(head.id);
  const auto place = static_cast<uint64_t>(choice * 4096 + call);
  return fmt::format("call_{:016x}{:08x}", random_bits(name, 1, place),
                     random_bits(name, 2, place) >> 32);
}

std::string answer_json(const AnswerHead& head, const std::vector<AnswerChoice>& choices,
                        const AnswerUsage& usage, const LogprobsOptions& logprobs) {
  Json answer = head_json(head, head.chat ? "chat.completion" : "text_completion");
  Json list = Json::array();
  for (const AnswerChoice& choice : choices) {
    Json one;
    one["index"] = choice.index;
    if (head.chat) {
      one["message"] = message_json(head, choice);
    } else {
      one["text"] = choice.text.content;
    }
    one["logprobs"] = logprobs_json(head.chat, choice, logprobs);
    one["finish_reason"] = finish_json(choice);
    one["stop_reason"] = stop_json(choice);
    list.push_back(std::move(one));
  }
  answer["choices"] = std::move(list);
  answer["usage"] = usage_json(usage);
  return dump_json(answer);
}

std::string chunk_json(const AnswerHead& head, const AnswerChoice& choice,
                       const ChunkOptions& options) {
  Json chunk = head_json(head, head.chat ? "chat.completion.chunk" : "text_completion");
  Json one;
  one["index"] = choice.index;
  if (head.chat) {
    one["delta"] = delta_json(head, choice, options.first);
  } else {
    one["text"] = choice.text.content;
  }
  one["logprobs"] = logprobs_json(head.chat, choice, options.logprobs);
  one["finish_reason"] = finish_json(choice);
  if (choice.stop_string) {
    one["stop_reason"] = *choice.stop_string;
  }
  chunk["choices"] = Json::array();
  chunk["choices"].push_back(std::move(one));
  if (options.usage) {
    chunk["usage"] = usage_json(*options.usage);
  } else if (options.usage_null) {
    chunk["usage"] = nullptr;
  }
  return dump_json(chunk);
}

std::string usage_chunk_json(const AnswerHead& head, const AnswerUsage& usage) {
  Json chunk = head_json(head, head.chat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_json(usage);
  return dump_json(chunk);
}

namespace {

Json model_entry(const std::string& name, int64_t created_s, int64_t max_model_len) {
  Json model;
  model["id"] = name;
  model["object"] = "model";
  model["created"] = created_s;
  model["owned_by"] = "plait";
  model["root"] = name;
  model["parent"] = nullptr;
  model["max_model_len"] = max_model_len;
  return model;
}

}  // namespace

std::string model_json(const std::string& name, int64_t created_s, int64_t max_model_len) {
  return dump_json(model_entry(name, created_s, max_model_len));
}

std::string model_list_json(const std::vector<std::string>& names, int64_t created_s,
                            int64_t max_model_len) {
  Json list;
  list["object"] = "list";
  list["data"] = Json::array();
  for (const std::string& name : names) {
    list["data"].push_back(model_entry(name, created_s, max_model_len));
  }
  return dump_json(list);
}

}  // namespace plait
