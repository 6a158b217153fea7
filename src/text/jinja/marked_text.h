// A string that knows which of its bytes came from a client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_segment.h"

namespace plait::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string bytes, bool from_user = false)
      : bytes_(std::move(bytes)), user_(from_user) {}

  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }
  bool any_user() const { return user_ || !runs_.empty(); }

  void append(const MarkedText& other);
  MarkedText part(size_t begin, size_t size) const;
  // The same marks on as many bytes, else all of it the user's if any byte is.
  MarkedText with_bytes(std::string bytes) const;
  std::vector<TextSegment> segments() const;

 private:
  struct Run {
    size_t size = 0;
    bool user = false;
  };
  void add_run(const Run& run);
  void split_runs();

  std::string bytes_;
  bool user_ = false;      // of all bytes, if runs_ is empty
  std::vector<Run> runs_;  // two or more, neighbours differ
};

}  // namespace plait::jinja
