// From the tokens of one answer to what a client sees: text without stop strings, thinking apart,
// tool calls found.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/reasoning_parser.h"
#include "text/stop_matcher.h"
#include "text/tool_call_parser.h"

namespace plait {

struct OutputOptions {
  DecodeOptions decode;
  std::vector<std::string> stops = {};
  bool include_stop = false;
  std::optional<ReasoningStart> reasoning = {};  // absent: thinking is content
  bool tools = false;
  bool one_call = false;  // calls after the first are dropped
};

// What one token, or the end, added.
struct OutputDelta {
  struct Call {
    int64_t index = 0;
    bool starts = false;  // name is set
    std::string name = {};
    std::string arguments = {};
  };
  std::string content = {};
  std::string reasoning = {};
  std::vector<Call> calls = {};

  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

// Not thread-safe. The joined deltas do not depend on how tokens are grouped into updates.
class OutputText {
 public:
  OutputText(const Tokenizer& tokenizer, OutputOptions options);

  // Adds to `delta`. After a stop string was found nothing is added any more.
  void push(int32_t token, OutputDelta& delta);
  // What was held back. Once, at the end.
  void finish(OutputDelta& delta);

  const std::optional<std::string>& stop_string() const { return stops_.matched(); }
  int64_t num_calls() const { return num_calls_; }
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  void pass_on(const std::string& text, OutputDelta& delta);
  void add_content(const std::string& text, OutputDelta& delta);
  void add_events(const std::vector<ToolEvent>& events, OutputDelta& delta);

  OutputOptions options_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<ReasoningParser> reasoning_;
  ToolCallParser calls_;
  int64_t num_calls_ = 0;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace plait
