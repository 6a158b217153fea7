#include "serve/output_text.h"

#include <utility>

namespace plait {

OutputText::OutputText(const Tokenizer& tokenizer, OutputOptions options)
    : options_(std::move(options)),
      detokenizer_(tokenizer, options_.decode),
      stops_(options_.stops, options_.include_stop) {
  if (options_.reasoning) {
    reasoning_.emplace(*options_.reasoning);
  }
}

void OutputText::add_events(const std::vector<ToolEvent>& events, OutputDelta& delta) {
  for (const ToolEvent& event : events) {
    if (event.kind == ToolEvent::Kind::kContent) {
      delta.content += event.text;
      continue;
    }
    if (options_.one_call && event.index > 0) {
      continue;
    }
    const bool starts = event.kind == ToolEvent::Kind::kCallStart;
    if (starts) {
      ++num_calls_;
    }
    if (starts || delta.calls.empty() || delta.calls.back().index != event.index) {
      OutputDelta::Call call;
      call.index = event.index;
      call.starts = starts;
      delta.calls.push_back(std::move(call));
    }
    OutputDelta::Call& call = delta.calls.back();
    (starts ? call.name : call.arguments) += event.text;
  }
}

void OutputText::add_content(const std::string& text, OutputDelta& delta) {
  if (options_.tools) {
    add_events(calls_.push(text), delta);
  } else {
    delta.content += text;
  }
}

void OutputText::pass_on(const std::string& text, OutputDelta& delta) {
  if (!reasoning_) {
    add_content(text, delta);
    return;
  }
  const ReasoningParser::Delta parts = reasoning_->push(text);
  delta.reasoning += parts.reasoning;
  add_content(parts.content, delta);
}

void OutputText::push(int32_t token, OutputDelta& delta) {
  if (stops_.matched()) {
    return;
  }
  if (reasoning_ && reasoning_->inside()) {
    ++reasoning_tokens_;
  }
  pass_on(stops_.push(detokenizer_.push(token)), delta);
}

void OutputText::finish(OutputDelta& delta) {
  if (!stops_.matched()) {
    pass_on(stops_.push(detokenizer_.finish()), delta);
  }
  if (!stops_.matched()) {
    pass_on(stops_.finish(), delta);
  }
  if (reasoning_) {
    const ReasoningParser::Delta parts = reasoning_->finish();
    delta.reasoning += parts.reasoning;
    add_content(parts.content, delta);
  }
  if (options_.tools) {
    add_events(calls_.finish(), delta);
  }
}

}  // namespace plait
