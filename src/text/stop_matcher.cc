#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace plait {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (std::string& stop : stops) {
    if (stop.empty()) {
      throw_error(ErrorCode::kInvalidArgument,
                  "a stop string is empty; every stop string needs at least one character");
    }
    Pattern pattern{std::move(stop), {}, 0};
    pattern.fallback.assign(pattern.text.size(), 0);
    size_t length = 0;
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      while (length > 0 && pattern.text[i] != pattern.text[length]) {
        length = pattern.fallback[length - 1];
      }
      length += pattern.text[i] == pattern.text[length] ? 1 : 0;
      pattern.fallback[i] = length;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_) {
    return {};
  }
  if (patterns_.empty()) {
    return std::string(text);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const Pattern* found = nullptr;
    for (Pattern& pattern : patterns_) {
      while (pattern.state > 0 && pattern.text[pattern.state] != text[i]) {
        pattern.state = pattern.fallback[pattern.state - 1];
      }
      pattern.state += pattern.text[pattern.state] == text[i] ? 1 : 0;
      if (pattern.state == pattern.text.size() &&
          (found == nullptr || pattern.text.size() > found->text.size())) {
        found = &pattern;
      }
    }
    if (found != nullptr) {
      matched_ = found->text;
      std::string out = std::exchange(held_, {});
      out += text.substr(0, i + 1);
      out.resize(out.size() - (include_stop_ ? 0 : matched_->size()));
      return out;
    }
  }
  held_ += text;
  size_t held = 0;
  for (const Pattern& pattern : patterns_) {
    held = std::max(held, pattern.state);
  }
  // A stop begins with a whole character, so this cuts none.
  std::string out = held_.substr(0, held_.size() - held);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace plait
