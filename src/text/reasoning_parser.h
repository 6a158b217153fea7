// Tells a model's thinking (<think>...</think>) from its answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

enum class ReasoningStart : uint8_t {
  kByTag,   // content until the model writes <think>
  kInside,  // the prompt opened the think block
  kNever,   // the prompt closed it: everything is content, verbatim
};

// How the output after this prompt starts: the prompt ends with <think> or </think> (white space
// aside), or with neither.
ReasoningStart reasoning_start(std::string_view rendered_prompt);

// Splits streamed text. White space around the two parts (the line breaks beside the tags) is
// dropped. The joined results do not depend on how the text is cut.
class ReasoningParser {
 public:
  explicit ReasoningParser(ReasoningStart start);
  struct Delta {
    std::string reasoning;
    std::string content;
  };
  Delta push(std::string_view text);
  // The rest. A block that is still open stays reasoning.
  Delta finish();

  bool inside() const { return state_ == State::kReasoning; }

 private:
  enum class State : uint8_t { kContent, kReasoning };
  void step(Delta& delta, bool last);
  void emit(std::string_view text, Delta& delta);

  State state_ = State::kContent;
  bool verbatim_ = false;
  bool skip_space_ = false;  // the part has not begun
  std::string pending_;      // may begin a tag
  std::string space_;        // white space that is sent only if text follows
};

}  // namespace plait
