#include <array>

#include "base/json_full.h"
#include "base/text.h"
#include "serve/api_error.h"
#include "serve/api_fields.h"
#include "serve/openai_request.h"

namespace plait {
namespace {

void check_content(const ApiFields& message, const std::string& path) {
  const Json* content = message.find("content");
  if (content == nullptr || content->is_string()) {
    return;
  }
  if (!content->is_array()) {
    message.wrong_type("content", *content, "a string or a list of parts");
  }
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string part_path = fmt::format("{}content[{}]", path, i);
    const ApiFields part((*content)[i], part_path + ".");
    const std::string type = part.text("type").value_or("");
    if (type != "text") {
      refuse_field(part_path, fmt::format("{} is of type '{}'; only 'text' is supported", part_path,
                                          shortened(type, 40)));
    }
    if (!part.text("text")) {
      refuse_field(part_path, fmt::format("{}.text is missing", part_path));
    }
  }
}

void check_calls(const ApiFields& message, const std::string& path) {
  const Json* calls = message.list("tool_calls");
  for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    const std::string call_path = fmt::format("{}tool_calls[{}].", path, i);
    const ApiFields call((*calls)[i], call_path);
    const Json* function = call.object("function");
    if (function == nullptr) {
      refuse_field(call.name_of("function"),
                   fmt::format("{} is missing", call.name_of("function")));
    }
    const ApiFields inner(*function, call_path + "function.");
    if (!inner.text("name")) {
      refuse_field(inner.name_of("name"), fmt::format("{} is missing", inner.name_of("name")));
    }
    const Json* arguments = inner.find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      inner.wrong_type("arguments", *arguments, "a string of JSON, or an object");
    }
  }
}

}  // namespace

void check_chat_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    refuse_field("messages", "messages must be a list with at least one message");
  }
  static constexpr std::array<const char*, 5> kRoles = {"system", "developer", "user", "assistant",
                                                        "tool"};
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = fmt::format("messages[{}].", i);
    const ApiFields message(messages[i], path);
    const auto role = message.text("role");
    bool known = false;
    for (const char* name : kRoles) {
      known = known || role == name;
    }
    if (!known) {
      refuse_field(path + "role",
                   fmt::format("{}role is '{}'; it must be system, developer, user, assistant or "
                               "tool",
                               path, shortened(role.value_or(""), 40)));
    }
    check_content(message, path);
    if (message.find("content") == nullptr && *role != "assistant") {
      refuse_field(path + "content",
                   fmt::format("{}content is missing; only an assistant's may be null", path));
    }
    for (const char* key : {"name", "tool_call_id", "reasoning", "reasoning_content"}) {
      message.text(key);
    }
    check_calls(message, path);
  }
}

void check_chat_tools(const Json& tools) {
  static constexpr size_t kMostTools = 128;
  if (tools.size() > kMostTools) {
    refuse_field("tools", fmt::format("tools has {} entries; at most {} are allowed", tools.size(),
                                      kMostTools));
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}].", i);
    const ApiFields tool(tools[i], path);
    if (tool.text("type").value_or("") != "function") {
      refuse_field(path + "type", fmt::format("{}type must be 'function'", path));
    }
    const Json* function = tool.object("function");
    if (function == nullptr) {
      refuse_field(path + "function", fmt::format("{}function is missing", path));
    }
    const ApiFields inner(*function, path + "function.");
    if (inner.text("name").value_or("").empty()) {
      refuse_field(inner.name_of("name"), fmt::format("{} is missing", inner.name_of("name")));
    }
    inner.text("description");
    inner.object("parameters");
  }
}

}  // namespace plait
