#include "doctor/log_scan.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace plait {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kMaxLine = size_t{1} << 16;
constexpr size_t kMaxHitLines = 1000;
constexpr int kMaxHitsOfPattern = 24;
constexpr int kMaxHitsOfEveryRank = 400;
constexpr size_t kLookBack = 4096;  // bytes before a hit in which a line without a time finds one

// "# source: a ticket": what somebody wrote above a log about it, which is not what the log says.
bool is_head_line(std::string_view line) {
  constexpr size_t kMaxKey = 20;
  if (!line.starts_with("# ")) {
    return false;
  }
  const std::string_view text = line.substr(2);
  const size_t colon = text.find(": ");
  return colon != std::string_view::npos && colon > 0 && colon <= kMaxKey &&
         std::all_of(text.begin(), text.begin() + static_cast<int64_t>(colon),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '-'; });
}

class LogScanner {
 public:
  LogScanner(const std::string& name, const RuleSet& rules)
      : rules_(rules), hits_of_(rules.patterns().size(), 0) {
    file_.name = name;
    last_ = read_path_origin(name);
    buffer_.resize(kChunk + kMaxLine);
  }

  ScannedFile scan(ByteReader& reader) {
    while (true) {
      const size_t room = buffer_.size() - used_;
      const size_t count = reader.read({buffer_.data() + used_, std::min(room, kChunk)});
      if (count == 0) {
        break;
      }
      file_.bytes += static_cast<int64_t>(count);
      const size_t begin = used_;
      used_ += count;
      scan_bytes(begin);
      keep_rest();
    }
    if (used_ > line_begin_) {
      file_.ends_in_line = true;
      end_line(used_);
    }
    return std::move(file_);
  }

 private:
  struct Found {
    int anchor = 0;
    size_t end = 0;  // in the line
  };

  // Steps the automaton over buffer_[begin, used_).
  void scan_bytes(size_t begin) {
    const AnchorSet& anchors = rules_.anchors();
    const uint32_t special = anchors.num_special();
    const auto* data = reinterpret_cast<const unsigned char*>(buffer_.data());
    uint32_t state = state_;
    for (size_t at = begin; at < used_; ++at) {
      state = anchors.next(state, data[at]);
      if (state >= special) {
        continue;
      }
      if (state == 0) {
        end_line(at);
        line_begin_ = at + 1;
        continue;
      }
      if (!cut_) {
        for (const int anchor : anchors.found(state)) {
          note(anchor, at + 1 - line_begin_);
        }
      }
    }
    state_ = state;
  }

  void note(int anchor, size_t end) {
    if (num_found_ < found_.size()) {
      found_[num_found_++] = {anchor, end};
    }
  }

  // Moves the unfinished line to the front; one that is too long is ended here and the rest of it
  // skipped.
  void keep_rest() {
    if (used_ - line_begin_ > kMaxLine) {
      if (!cut_) {
        match_line(line_begin_ + kMaxLine);
      }
      num_found_ = 0;
      cut_ = true;
      line_begin_ = used_;
    }
    const size_t keep_from = line_begin_ > kLookBack ? line_begin_ - kLookBack : 0;
    std::memmove(buffer_.data(), buffer_.data() + keep_from, used_ - keep_from);
    used_ -= keep_from;
    line_begin_ -= keep_from;
  }

  void end_line(size_t end) {
    const size_t matched_end = std::min(end, line_begin_ + kMaxLine);
    in_head_ = in_head_ && !cut_ &&
               is_head_line({buffer_.data() + line_begin_, matched_end - line_begin_});
    if (num_found_ > 0 && !cut_ && !in_head_) {
      match_line(matched_end);
    }
    file_.num_lines += 1;
    num_found_ = 0;
    cut_ = false;
  }

  void match_line(size_t end) {
    if (num_found_ == 0) {
      return;
    }
    const std::string_view line(buffer_.data() + line_begin_, end - line_begin_);
    LogLine result;
    size_t first_end = line.size();
    for (size_t i = 0; i < num_found_; ++i) {
      for (const int pattern : rules_.patterns_of(found_[i].anchor)) {
        if (try_pattern(pattern, line, result)) {
          first_end = std::min(first_end, found_[i].end);
        }
      }
    }
    if (result.hits.empty()) {
      return;
    }
    if (file_.lines.size() >= kMaxHitLines) {
      file_.num_dropped += 1;
      return;
    }
    fill_line(line, first_end, result);
    file_.lines.push_back(std::move(result));
  }

  bool try_pattern(int pattern, std::string_view line, LogLine& result) {
    int& count = hits_of_[static_cast<size_t>(pattern)];
    const bool of_every_rank =
        rules_.is_watchdog_pattern(pattern) || rules_.is_task_pattern(pattern);
    if (count >= (of_every_rank ? kMaxHitsOfEveryRank : kMaxHitsOfPattern)) {
      return false;
    }
    const bool known = std::any_of(result.hits.begin(), result.hits.end(),
                                   [&](const LogHit& hit) { return hit.pattern == pattern; });
    LogHit hit{pattern, {}};
    if (known || !rules_.patterns()[static_cast<size_t>(pattern)].match(line, &hit.captures)) {
      return false;
    }
    count += 1;
    result.hits.push_back(std::move(hit));
    return true;
  }

  void fill_line(std::string_view line, size_t first_end, LogLine& result) {
    result.number = file_.num_lines + 1;
    LineOrigin origin = read_line_origin(line);
    if (origin.time < 0) {
      look_back(origin);
    }
    last_ = merged_origin(last_, origin);
    result.origin = last_;
    size_t begin = 0;
    if (line.size() > kMaxLineText && first_end > kMaxLineText / 2) {
      begin = std::min(first_end - kMaxLineText / 2, line.size() - kMaxLineText);
    }
    result.text = line.substr(begin, kMaxLineText);
    if (!result.text.empty() && result.text.back() == '\r') {
      result.text.pop_back();
    }
  }

  // The time of the nearest of the lines before.
  void look_back(LineOrigin& origin) const {
    size_t end = line_begin_;
    for (int count = 0; count < 20 && end > 1 && origin.time < 0; ++count) {
      const size_t newline = std::string_view(buffer_.data(), end - 1).rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      const LineOrigin before =
          read_line_origin(std::string_view(buffer_.data() + begin, end - 1 - begin));
      origin.time = before.time;
      origin.has_year = before.has_year;
      origin.time_form = before.time_form;
      end = begin;
    }
  }

  const RuleSet& rules_;
  std::vector<int> hits_of_;
  ScannedFile file_;
  LineOrigin last_;
  std::vector<char> buffer_;
  size_t used_ = 0;
  size_t line_begin_ = 0;
  uint32_t state_ = rules_.anchors().start();
  std::array<Found, 64> found_{};
  size_t num_found_ = 0;
  bool cut_ = false;
  bool in_head_ = true;  // all lines so far are of the file's head
};

}  // namespace

ScannedFile scan_text(const std::string& text, const std::string& name, const RuleSet& rules) {
  return scan_log(*open_text(text), name, rules);
}

ScannedFile scan_log(ByteReader& reader, const std::string& name, const RuleSet& rules) {
  return LogScanner(name, rules).scan(reader);
}

}  // namespace plait
