#include "text/chat_template.h"

#include <utility>

#include "base/error.h"
#include "base/json_full.h"
#include "base/utf8.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace plait {
namespace {

[[noreturn]] void wrong(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

// A string, or a list of text parts.
std::string content_text(const Json& content, const std::string& place) {
  if (content.is_null()) {
    return {};
  }
  if (content.is_string()) {
    return content.get<std::string>();
  }
  if (!content.is_array()) {
    wrong(place + " must be a string, null or a list of text parts");
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string part_place = fmt::format("{}[{}]", place, i);
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      wrong(part_place + " must be an object with a type");
    }
    if (part["type"] != "text") {
      wrong(fmt::format("{}.type is {}; only \"text\" parts are supported", part_place,
                        dump_json(part["type"])));
    }
    if (!part.contains("text") || !part["text"].is_string()) {
      wrong(part_place + ".text must be a string");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

// Templates differ in what they take; a mapping is what all of them can print.
void parse_arguments(Json& call) {
  Json& function =
      call.contains("function") && call["function"].is_object() ? call["function"] : call;
  if (!function.contains("arguments") || !function["arguments"].is_string()) {
    return;
  }
  const std::string text = function["arguments"].get<std::string>();
  try {
    Json arguments = parse_json(text.empty() ? "{}" : text, "arguments");
    if (arguments.is_object()) {
      function["arguments"] = std::move(arguments);
    }
  } catch (const Error&) {
    // What a model once wrote need not be JSON: the template prints the string.
  }
}

Json normalized_message(const Json& given, const std::string& place) {
  if (!given.is_object()) {
    wrong(place + " must be an object with role and content");
  }
  if (!given.contains("role") || !given["role"].is_string()) {
    wrong(place + ".role must be a string");
  }
  Json message = given;
  message["content"] =
      content_text(given.contains("content") ? given["content"] : Json(), place + ".content");
  for (const auto& [key, other] :
       {std::pair("reasoning", "reasoning_content"), std::pair("reasoning_content", "reasoning")}) {
    if (given.contains(key) && given[key].is_string() && !given.contains(other)) {
      message[other] = given[key];
    }
  }
  if (!given.contains("tool_calls") || given["tool_calls"].is_null()) {
    message.erase("tool_calls");
    return message;
  }
  if (!given["tool_calls"].is_array()) {
    wrong(place + ".tool_calls must be a list");
  }
  for (size_t i = 0; i < message["tool_calls"].size(); ++i) {
    Json& call = message["tool_calls"][i];
    if (!call.is_object()) {
      wrong(fmt::format("{}.tool_calls[{}] must be an object", place, i));
    }
    parse_arguments(call);
  }
  return message;
}

Json normalized_messages(const Json* given) {
  if (given == nullptr || !given->is_array()) {
    wrong("messages must be a list of objects with role and content");
  }
  if (given->empty()) {
    wrong("messages must not be empty");
  }
  Json messages = Json::array();
  for (size_t i = 0; i < given->size(); ++i) {
    messages.push_back(normalized_message((*given)[i], fmt::format("messages[{}]", i)));
  }
  return messages;
}

void add_token(const char* name, const std::string& text, jinja::Variables& variables) {
  if (!text.empty()) {
    variables[name] = jinja::Value::text(text);
  }
}

}  // namespace

struct ChatTemplate::Impl {
  std::string origin;
  ChatTemplateTokens tokens;
  jinja::Body body;
};

ChatTemplate::ChatTemplate(const std::string& source, const ChatTemplateTokens& tokens,
                           const std::string& origin) {
  if (find_invalid_utf8(source) != std::string_view::npos) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: not UTF-8", origin,
                find_invalid_utf8(source));
  }
  auto impl = std::make_unique<Impl>();
  impl->origin = origin;
  impl->tokens = tokens;
  impl->body = jinja::parse(source, origin);
  impl_ = std::move(impl);
}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

std::vector<TextSegment> ChatTemplate::render(const ChatInput& input) const {
  jinja::Variables variables;
  add_token("bos_token", impl_->tokens.bos_token, variables);
  add_token("eos_token", impl_->tokens.eos_token, variables);
  add_token("pad_token", impl_->tokens.pad_token, variables);
  if (input.kwargs != nullptr && !input.kwargs->is_null()) {
    if (!input.kwargs->is_object()) {
      wrong("chat_template_kwargs must be an object");
    }
    for (const auto& [key, value] : input.kwargs->items()) {
      variables[key] = jinja::from_json(value, true);
    }
  }
  for (const char* reserved : {"messages", "tools", "documents", "add_generation_prompt"}) {
    if (variables.contains(reserved)) {
      wrong(fmt::format("chat_template_kwargs.{} is not allowed: the request sets it itself",
                        reserved));
    }
  }
  const bool has_tools = input.tools != nullptr && !input.tools->is_null();
  if (has_tools && !input.tools->is_array()) {
    wrong("tools must be a list");
  }
  variables["messages"] = jinja::from_json(normalized_messages(input.messages), true);
  variables["tools"] = has_tools ? jinja::from_json(*input.tools, true) : jinja::Value::none();
  variables["documents"] = jinja::Value::none();
  variables["add_generation_prompt"] = jinja::Value::boolean(input.add_generation_prompt);
  jinja::Runtime runtime(impl_->origin, {});
  runtime.now_s = input.now_s;
  return jinja::Evaluator(runtime, std::move(variables)).render(impl_->body).segments();
}

std::string join_segments(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) {
    text += segment.text;
  }
  return text;
}

}  // namespace plait
