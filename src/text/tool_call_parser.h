// Finds <tool_call>{"name": ..., "arguments": {...}}</tool_call> in streamed text (Qwen and
// Hermes).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// What a piece of text brought, in order of appearance.
struct ToolEvent {
  enum class Kind : uint8_t {
    kContent,    // text
    kCallStart,  // name of call `index`; ids are the caller's
    kArguments,  // further characters of the arguments of call `index`: JSON text
  };
  Kind kind = Kind::kContent;
  int64_t index = 0;
  std::string text;
};

// Arguments are passed on while they arrive, as the model wrote them. A block that is no call (not
// JSON, no name) comes out as content, tags included; one that breaks off within its arguments
// leaves them cut. The joined events do not depend on how the text is cut.
class ToolCallParser {
 public:
  std::vector<ToolEvent> push(std::string_view text);
  std::vector<ToolEvent> finish();
  int64_t num_calls() const { return num_calls_; }

 private:
  enum class State : uint8_t {
    kText,
    kHeader,     // {"name": "...", "arguments": {
    kArguments,  // inside that object
    kTail,       // behind it
    kWhole,      // a block in another order: read when it is complete
  };
  // Each does what it can with pending_; true: the state has changed, go on.
  bool step(std::vector<ToolEvent>& events, bool last);
  bool step_text(std::vector<ToolEvent>& events, bool last);
  bool step_header(std::vector<ToolEvent>& events, bool last);
  bool step_arguments(std::vector<ToolEvent>& events);
  bool step_tail();
  bool step_whole(std::vector<ToolEvent>& events, bool last);
  void add_text(std::string_view text, std::vector<ToolEvent>& events);
  void start_call(std::string name, std::vector<ToolEvent>& events);

  State state_ = State::kText;
  std::string pending_;
  std::string space_;  // white space that is dropped if a call follows
  int64_t num_calls_ = 0;
  // Of the arguments read so far.
  int64_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace plait
