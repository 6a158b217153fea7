#include <string>

#include "base/json_full.h"
#include "base/utf8.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "text/chat_template.h"

namespace plait {

void fuzz_chat_template(std::span<const std::byte> input) {
  static const Json messages = parse_json(
      R"([{"role": "system", "content": "be brief"}, {"role": "user", "content": "a\n<b> \u00e9"},
          {"role": "assistant", "content": "<think>\nx\n</think>\n\ny", "tool_calls":
            [{"function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]},
          {"role": "tool", "content": "{}"}])",
      "messages");
  static const Json tools = parse_json(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])",
      "tools");
  const std::string source(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] {
    const ChatTemplate chat(source, {.bos_token = "<s>", .eos_token = "</s>", .pad_token = ""},
                            "input");
    const std::string text = join_segments(chat.render({.messages = &messages, .tools = &tools}));
    CHECK(find_invalid_utf8(text) == std::string_view::npos);
  });
}

}  // namespace plait
