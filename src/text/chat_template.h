// Chat templates: from messages to the prompt, as HF transformers' apply_chat_template renders
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/text_segment.h"

namespace plait {

// Values of the template's variables bos_token and so on; an empty one is undefined.
struct ChatTemplateTokens {
  std::string bos_token;
  std::string eos_token;
  std::string pad_token;
};

struct ChatInput {
  // A list of objects with role and content. content may be null or absent ("" then) or a list of
  // {"type": "text", "text": ...} parts, whose texts are joined. tool_calls[].function.arguments
  // may be a JSON string: it becomes the mapping that it spells. `reasoning` and
  // `reasoning_content` are both accepted.
  const Json* messages = nullptr;
  const Json* tools = nullptr;   // null, or a list
  const Json* kwargs = nullptr;  // null, or an object: chat_template_kwargs
  bool add_generation_prompt = true;
  int64_t now_s = 0;  // Unix time for strftime_now; shown in UTC
};

// Immutable and thread-safe. Rendering is bounded in steps, depth and output.
class ChatTemplate {
 public:
  // Errors: kCorruptData (syntax) or kNotImplemented (a part of Jinja that is not here), both with
  // origin and line.
  ChatTemplate(const std::string& source, const ChatTemplateTokens& tokens,
               const std::string& origin);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Adjacent segments differ in from_user; everything that came in through `input` is the user's.
  // Errors: kInvalidArgument for input that is wrong ("messages[2].content ...", empty messages) or
  // that the template refuses (raise_exception, an operation on a wrong type: with the line).
  std::vector<TextSegment> render(const ChatInput& input) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// The segments' texts in one.
std::string join_segments(const std::vector<TextSegment>& segments);

}  // namespace plait
