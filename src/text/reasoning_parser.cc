#include "text/reasoning_parser.h"

#include <utility>

#include "text/held_tag.h"

namespace plait {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kThinkBlanks = " \t\r\n";

}  // namespace

ReasoningStart reasoning_start(std::string_view rendered_prompt) {
  const size_t last = rendered_prompt.find_last_not_of(kThinkBlanks);
  const std::string_view text =
      rendered_prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return text.ends_with(kThinkClose)  ? ReasoningStart::kNever
         : text.ends_with(kThinkOpen) ? ReasoningStart::kInside
                                      : ReasoningStart::kByTag;
}

ReasoningParser::ReasoningParser(ReasoningStart start)
    : state_(start == ReasoningStart::kInside ? State::kReasoning : State::kContent),
      verbatim_(start == ReasoningStart::kNever),
      skip_space_(start == ReasoningStart::kInside) {}

ReasoningParser::Delta ReasoningParser::push(std::string_view text) {
  Delta delta;
  if (verbatim_) {
    delta.content = text;
    return delta;
  }
  pending_ += text;
  step(delta, false);
  return delta;
}

ReasoningParser::Delta ReasoningParser::finish() {
  Delta delta;
  if (!verbatim_) {
    step(delta, true);
    if (state_ == State::kContent) {
      delta.content += space_;
    }
    space_.clear();
  }
  return delta;
}

void ReasoningParser::step(Delta& delta, bool last) {
  for (;;) {
    const std::string_view pending = pending_;
    const std::string_view tag = state_ == State::kReasoning ? kThinkClose : kThinkOpen;
    const size_t found = pending_.find(tag);
    if (found == std::string::npos) {
      const size_t sure = pending_.size() - (last ? 0 : held_tag_size(pending_, tag));
      emit(pending.substr(0, sure), delta);
      pending_.erase(0, sure);
      return;
    }
    emit(pending.substr(0, found), delta);
    pending_.erase(0, found + tag.size());
    space_.clear();
    skip_space_ = true;
    state_ = state_ == State::kReasoning ? State::kContent : State::kReasoning;
  }
}

void ReasoningParser::emit(std::string_view text, Delta& delta) {
  if (skip_space_) {
    const size_t first = text.find_first_not_of(kThinkBlanks);
    if (first == std::string_view::npos) {
      return;
    }
    text.remove_prefix(first);
    skip_space_ = false;
  }
  const size_t last = text.find_last_not_of(kThinkBlanks);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  std::string& part = state_ == State::kReasoning ? delta.reasoning : delta.content;
  part += std::exchange(space_, std::string(text.substr(last + 1)));
  part += text.substr(0, last + 1);
}

}  // namespace plait
