#include "text/jinja/marked_text.h"

#include <algorithm>

namespace plait::jinja {

void MarkedText::split_runs() {
  if (runs_.empty() && !bytes_.empty()) {
    runs_.push_back({bytes_.size(), user_});
  }
}

void MarkedText::add_run(const Run& run) {
  if (run.size == 0) {
    return;
  }
  if (!runs_.empty() && runs_.back().user == run.user) {
    runs_.back().size += run.size;
  } else {
    runs_.push_back(run);
  }
}

void MarkedText::append(const MarkedText& other) {
  if (other.empty()) {
    return;
  }
  if (empty()) {
    *this = other;
    return;
  }
  if (runs_.empty() && other.runs_.empty() && user_ == other.user_) {
    bytes_ += other.bytes_;
    return;
  }
  split_runs();
  if (other.runs_.empty()) {
    add_run({other.size(), other.user_});
  } else {
    for (const Run& run : std::vector<Run>(other.runs_)) {
      add_run(run);
    }
  }
  bytes_ += other.bytes_;
  user_ = false;
}

MarkedText MarkedText::part(size_t begin, size_t size) const {
  begin = std::min(begin, bytes_.size());
  size = std::min(size, bytes_.size() - begin);
  MarkedText result(bytes_.substr(begin, size), user_);
  size_t run_begin = 0;
  for (const Run& run : runs_) {
    const size_t from = std::max(run_begin, begin);
    const size_t to = std::min(run_begin + run.size, begin + size);
    if (from < to) {
      result.add_run({to - from, run.user});
    }
    run_begin += run.size;
  }
  if (result.runs_.size() == 1) {
    result.user_ = result.runs_.front().user;
    result.runs_.clear();
  }
  return result;
}

MarkedText MarkedText::with_bytes(std::string bytes) const {
  if (bytes.size() != bytes_.size()) {
    return MarkedText(std::move(bytes), any_user());
  }
  MarkedText result = *this;
  result.bytes_ = std::move(bytes);
  return result;
}

std::vector<TextSegment> MarkedText::segments() const {
  if (runs_.empty()) {
    return bytes_.empty() ? std::vector<TextSegment>{}
                          : std::vector<TextSegment>{TextSegment{bytes_, user_}};
  }
  std::vector<TextSegment> segments;
  size_t begin = 0;
  for (const Run& run : runs_) {
    segments.push_back({bytes_.substr(begin, run.size), run.user});
    begin += run.size;
  }
  return segments;
}

}  // namespace plait::jinja
