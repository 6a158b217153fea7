#include "text/tool_call_parser.h"

#include <optional>
#include <utility>

#include "base/json_full.h"
#include "text/held_tag.h"

namespace plait {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kBlanks = " \t\r\n";

// Reads a known beginning step by step; ends early if the text does.
class HeaderReader {
 public:
  enum class Result : uint8_t { kYes, kNo, kShort };
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Result read() {
    for (const std::string_view part :
         {std::string_view("{"), std::string_view("\"name\""), std::string_view(":")}) {
      if (const Result result = expect(part); result != Result::kYes) {
        return result;
      }
    }
    if (const Result result = read_name(); result != Result::kYes) {
      return result;
    }
    for (const std::string_view part :
         {std::string_view(","), std::string_view("\"arguments\""), std::string_view(":")}) {
      if (const Result result = expect(part); result != Result::kYes) {
        return result;
      }
    }
    skip_blanks();
    if (at_end()) {
      return Result::kShort;
    }
    return text_[position_] == '{' ? Result::kYes : Result::kNo;
  }

  const std::string& name() const { return name_; }
  size_t position() const { return position_; }  // of the arguments

 private:
  bool at_end() const { return position_ == text_.size(); }
  void skip_blanks() {
    while (!at_end() && kBlanks.find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }
  Result expect(std::string_view part) {
    skip_blanks();
    const std::string_view here = text_.substr(position_, part.size());
    if (here != part.substr(0, here.size())) {
      return Result::kNo;
    }
    position_ += here.size();
    return here.size() == part.size() ? Result::kYes : Result::kShort;
  }
  Result read_name() {
    const Result quote = expect("\"");
    if (quote != Result::kYes) {
      return quote;
    }
    const size_t begin = position_ - 1;
    for (; !at_end() && text_[position_] != '"'; ++position_) {
      position_ += text_[position_] == '\\' && position_ + 1 < text_.size() ? 1 : 0;
    }
    if (at_end()) {
      return Result::kShort;
    }
    ++position_;
    const Json name = Json::parse(text_.substr(begin, position_ - begin), nullptr, false);
    if (!name.is_string()) {
      return Result::kNo;
    }
    name_ = name.get<std::string>();
    return Result::kYes;
  }

  std::string_view text_;
  size_t position_ = 0;
  std::string name_;
};

struct WholeCall {
  std::string name;
  std::string arguments;
};

std::optional<WholeCall> parse_whole(std::string_view body) {
  static constexpr int64_t kDepthMax = 128;
  int64_t depth = 0;
  for (const char c : body) {  // brackets in strings count too: a bound is all that is needed
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (depth > kDepthMax) {
      return std::nullopt;
    }
  }
  const Json call = Json::parse(body, nullptr, false);
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) {
    return std::nullopt;
  }
  WholeCall result{call["name"].get<std::string>(), "{}"};
  const Json arguments = call.value("arguments", Json(nullptr));
  if (arguments.is_string()) {
    result.arguments = arguments.get<std::string>();
  } else if (!arguments.is_null()) {
    result.arguments = dump_json(arguments);
  }
  return result;
}

void add_event(ToolEvent event, std::vector<ToolEvent>& events) {
  const bool joins = !events.empty() && events.back().kind == event.kind &&
                     events.back().index == event.index &&
                     event.kind != ToolEvent::Kind::kCallStart;
  if (joins) {
    events.back().text += event.text;
  } else if (!event.text.empty() || event.kind == ToolEvent::Kind::kCallStart) {
    events.push_back(std::move(event));
  }
}

}  // namespace

std::vector<ToolEvent> ToolCallParser::push(std::string_view text) {
  pending_ += text;
  std::vector<ToolEvent> events;
  while (step(events, false)) {
  }
  return events;
}

std::vector<ToolEvent> ToolCallParser::finish() {
  std::vector<ToolEvent> events;
  while (step(events, true)) {
  }
  if (num_calls_ == 0) {
    add_event({ToolEvent::Kind::kContent, 0, std::exchange(space_, {})}, events);
  }
  return events;
}

bool ToolCallParser::step(std::vector<ToolEvent>& events, bool last) {
  switch (state_) {
    case State::kText:
      return step_text(events, last);
    case State::kHeader:
      return step_header(events, last);
    case State::kArguments:
      return step_arguments(events);
    case State::kTail:
      return step_tail();
    case State::kWhole:
      return step_whole(events, last);
  }
  return false;
}

bool ToolCallParser::step_text(std::vector<ToolEvent>& events, bool last) {
  const size_t found = pending_.find(kOpen);
  if (found == std::string::npos) {
    const size_t sure = pending_.size() - (last ? 0 : held_tag_size(pending_, kOpen));
    add_text(std::string_view(pending_).substr(0, sure), events);
    pending_.erase(0, sure);
    return false;
  }
  add_text(std::string_view(pending_).substr(0, found), events);
  pending_.erase(0, found + kOpen.size());
  state_ = State::kHeader;
  return true;
}

bool ToolCallParser::step_header(std::vector<ToolEvent>& events, bool last) {
  HeaderReader reader(pending_);
  const HeaderReader::Result result = reader.read();
  if (result == HeaderReader::Result::kShort && !last) {
    return false;
  }
  if (result != HeaderReader::Result::kYes) {
    state_ = State::kWhole;
    return true;
  }
  start_call(reader.name(), events);
  pending_.erase(0, reader.position());
  depth_ = 0;
  in_string_ = escaped_ = false;
  state_ = State::kArguments;
  return true;
}

bool ToolCallParser::step_arguments(std::vector<ToolEvent>& events) {
  size_t size = 0;
  bool done = false;
  while (size < pending_.size() && !done) {
    const char c = pending_[size];
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '<') {  // no JSON: the call breaks off here
      break;
    } else {
      in_string_ = c == '"';
      depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      done = depth_ == 0;
    }
    ++size;
  }
  const bool broken = !done && size < pending_.size();
  add_event({ToolEvent::Kind::kArguments, num_calls_ - 1, pending_.substr(0, size)}, events);
  pending_.erase(0, size);
  if (!done && !broken) {
    return false;
  }
  state_ = State::kTail;
  return true;
}

bool ToolCallParser::step_tail() {
  const size_t found = pending_.find(kClose);
  if (found == std::string::npos) {
    pending_.erase(0, pending_.size() - held_tag_size(pending_, kClose));
    return false;
  }
  pending_.erase(0, found + kClose.size());
  state_ = State::kText;
  return true;
}

bool ToolCallParser::step_whole(std::vector<ToolEvent>& events, bool last) {
  const size_t found = pending_.find(kClose);
  if (found == std::string::npos && !last) {
    return false;
  }
  const bool closed = found != std::string::npos;
  const std::string body = pending_.substr(0, found);
  pending_.erase(0, closed ? found + kClose.size() : pending_.size());
  state_ = State::kText;
  if (const std::optional<WholeCall> call = parse_whole(body)) {
    start_call(call->name, events);
    add_event({ToolEvent::Kind::kArguments, num_calls_ - 1, call->arguments}, events);
  } else {
    add_text(std::string(kOpen) + body + std::string(closed ? kClose : ""), events);
  }
  return true;
}

void ToolCallParser::add_text(std::string_view text, std::vector<ToolEvent>& events) {
  const size_t last = text.find_last_not_of(kBlanks);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  std::string out = std::exchange(space_, std::string(text.substr(last + 1)));
  out += text.substr(0, last + 1);
  add_event({ToolEvent::Kind::kContent, 0, std::move(out)}, events);
}

void ToolCallParser::start_call(std::string name, std::vector<ToolEvent>& events) {
  space_.clear();
  ++num_calls_;
  add_event({ToolEvent::Kind::kCallStart, num_calls_ - 1, std::move(name)}, events);
}

}  // namespace plait
