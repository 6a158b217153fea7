#include "doctor/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "doctor/chars.h"
#include "doctor/numbers.h"

namespace plait {
namespace {

int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  // Howard Hinnant's algorithm, chrono-Compatible Low-Level Date Algorithms.
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

std::tm parts_of(double time) {
  const auto seconds = static_cast<std::time_t>(std::floor(time));
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  return parts;
}

// Reads digits and separators from the front of a text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  std::optional<int64_t> digits(size_t min, size_t max) {
    size_t end = at_;
    while (end < text_.size() && end - at_ < max && is_digit(text_[end])) {
      ++end;
    }
    if (end - at_ < min) {
      return std::nullopt;
    }
    int64_t value = 0;
    std::from_chars(text_.data() + at_, text_.data() + end, value);
    at_ = end;
    return value;
  }
  bool one_of(std::string_view allowed) {
    if (at_ < text_.size() && allowed.find(text_[at_]) != kNoPosition) {
      ++at_;
      return true;
    }
    return false;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::string_view rest() const { return text_.substr(at_); }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// "17:37:04", then ".447.996", ",447" or nothing.
std::optional<double> clock_time(Cursor& cursor) {
  const auto hour = cursor.digits(2, 2);
  if (!hour || !cursor.one_of(":-")) {
    return std::nullopt;
  }
  const auto minute = cursor.digits(2, 2);
  if (!minute || !cursor.one_of(":-")) {
    return std::nullopt;
  }
  const auto second = cursor.digits(2, 2);
  if (!second || *hour > 24 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  double fraction = 0;
  double unit = 0.1;
  for (int group = 0; group < 2 && cursor.one_of(".,"); ++group) {
    while (is_digit(cursor.peek())) {
      fraction += unit * static_cast<double>(*cursor.digits(1, 1));
      unit /= 10;
    }
  }
  return static_cast<double>(*hour * 3600 + *minute * 60 + *second) + fraction;
}

struct Date {
  int64_t year = kNoYear;
  int64_t month = 1;
  int64_t day = 1;
};

bool set_time(LineOrigin& origin, const Date& date, Cursor& cursor) {
  if (date.month < 1 || date.month > 12 || date.day < 1 || date.day > 31) {
    return false;
  }
  const auto seconds = clock_time(cursor);
  if (!seconds) {
    return false;
  }
  origin.has_year = date.year != kNoYear;
  origin.time =
      static_cast<double>(days_from_civil(date.year, date.month, date.day) * 86400) + *seconds;
  return true;
}

// "2025-11-22-17:37:04.447.996", "2025-11-22 17:37:04,447", "2025-11-22T17:37:04", "2025/11/22
// ...".
bool full_time(LineOrigin& origin, std::string_view text) {
  Cursor cursor(text);
  Date date;
  const auto year = cursor.digits(4, 4);
  if (!year || *year < 1980 || *year > 2200 || !cursor.one_of("-/")) {
    return false;
  }
  const auto month = cursor.digits(1, 2);
  if (!month || !cursor.one_of("-/")) {
    return false;
  }
  const auto day = cursor.digits(1, 2);
  if (!day || !cursor.one_of("- T_")) {
    return false;
  }
  date = {*year, *month, *day};
  return set_time(origin, date, cursor);
}

// vLLM: "INFO 06-17 02:21:30 [core.py:65]".
bool short_time(LineOrigin& origin, std::string_view text) {
  Cursor cursor(text);
  const auto month = cursor.digits(2, 2);
  if (!month || !cursor.one_of("-/")) {
    return false;
  }
  const auto day = cursor.digits(2, 2);
  return day && cursor.one_of(" ") && set_time(origin, {kNoYear, *month, *day}, cursor);
}

// glog and c10: "[W430 23:39:01.305", "E313 06:55:06.5", "[W1117 11:40:21", "I20251111 12:28:58".
bool glog_time(LineOrigin& origin, std::string_view text) {
  Cursor cursor(text);
  const auto number = cursor.digits(3, 8);
  if (!number || !cursor.one_of(" ")) {
    return false;
  }
  if (*number > 19800000) {
    return set_time(origin, {*number / 10000, *number / 100 % 100, *number % 100}, cursor);
  }
  if (*number > 1231) {
    return false;
  }
  return set_time(origin, {kNoYear, *number / 100, *number % 100}, cursor);
}

// ctime: "Thu Nov 28 11:56:34 2024"; syslog: "Nov 28 11:56:34".
bool month_name_time(LineOrigin& origin, std::string_view text) {
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t found = kMonths.find(text.substr(0, 3));
  if (text.size() < 15 || found == kNoPosition || found % 3 != 0 || text[3] != ' ') {
    return false;
  }
  Cursor cursor(text.substr(4));
  cursor.one_of(" ");
  const auto day = cursor.digits(1, 2);
  if (!day || !cursor.one_of(" ")) {
    return false;
  }
  Cursor ahead = cursor;
  clock_time(ahead);
  ahead.one_of(" ");
  const auto year = ahead.digits(4, 4);
  const Date date = {year.value_or(kNoYear), static_cast<int64_t>(found / 3) + 1, *day};
  return set_time(origin, date, cursor);
}

void find_time(LineOrigin& origin, std::string_view line) {
  for (size_t at = 0; at + 8 < line.size(); ++at) {
    const char c = line[at];
    const char before = at == 0 ? ' ' : line[at - 1];
    const std::string_view rest = line.substr(at);
    if (is_digit(c) && !is_digit(before)) {
      if (full_time(origin, rest)) {
        origin.time_form = TimeForm::kDate;
        return;
      }
      if (before == ' ' && short_time(origin, rest)) {
        origin.time_form = TimeForm::kMonthDay;
        return;
      }
      static constexpr std::string_view kLevels = "IWEFD";
      if (kLevels.find(before) != kNoPosition && glog_time(origin, rest)) {
        origin.time_form = TimeForm::kGlog;
        origin.level = before;
        return;
      }
    } else if (c >= 'A' && c <= 'S' && (before == ' ' || before == '[') &&
               month_name_time(origin, rest)) {
      origin.time_form = TimeForm::kMonthName;
      return;
    }
  }
}

template <size_t N>
std::optional<int64_t> first_number(std::string_view line,
                                    const std::array<std::string_view, N>& keys) {
  for (const std::string_view key : keys) {
    if (const auto value = number_after(line, key)) {
      return value;
    }
  }
  return std::nullopt;
}

// "[ERROR] HCCL(3977573,all_reduce_test):".
void read_cann_record(LineOrigin& origin, std::string_view line) {
  static constexpr std::array<std::string_view, 6> kLevels = {"[ERROR]", "[WARNING]", "[INFO]",
                                                              "[EVENT]", "[DEBUG]",   "[TRACE]"};
  for (const std::string_view level : kLevels) {
    const size_t at = line.find(level);
    if (at == kNoPosition) {
      continue;
    }
    origin.level = level[1] == 'E' && level[2] == 'V' ? 'I' : level[1];
    std::string_view rest = line.substr(at + level.size());
    while (!rest.empty() && rest[0] == ' ') {
      rest.remove_prefix(1);
    }
    const size_t open = rest.find('(');
    if (open == kNoPosition || open == 0 || open > 16) {
      return;
    }
    Cursor pid(rest.substr(open + 1));
    const auto value = pid.digits(1, 10);
    if (value || rest.substr(open + 1, 1) == "-") {
      origin.module = rest.substr(0, open);
      origin.pid = value.value_or(-1);
    }
    return;
  }
}

// What Python's loggers and the tools call less than an error.
void read_warning(LineOrigin& origin, std::string_view line) {
  constexpr size_t kHead = 160;  // where a level stands
  static constexpr std::string_view kLevels[] = {
      "WARNING", "Warning:", "INFO ", "INFO:", "[INFO", "DEBUG ", "| WARN", "WARN "};
  const std::string_view head = line.substr(0, kHead);
  if (std::ranges::any_of(
          kLevels, [&](std::string_view level) { return head.find(level) != kNoPosition; })) {
    origin.level = 'W';
  }
}

// "worker-1: text" and "node3: text", as pdsh and mpirun --tag-output print them.
void read_host_prefix(LineOrigin& origin, std::string_view line) {
  const size_t colon = line.substr(0, 64).find(": ");
  if (colon == kNoPosition || colon < 3) {
    return;
  }
  const std::string_view word = line.substr(0, colon);
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '.';
  });
  const bool address = is_digit(word[0]) && std::count(word.begin(), word.end(), '.') == 3;
  if (plain && is_digit(word.back()) &&
      (word.starts_with("worker") || word.starts_with("node") || word.starts_with("host") ||
       address)) {
    origin.host = word;
  }
}

}  // namespace

LineOrigin read_line_origin(std::string_view line) {
  line = line.substr(0, 400);
  LineOrigin origin;
  read_cann_record(origin, line);
  find_time(origin, line);
  read_warning(origin, line);
  static constexpr std::array<std::string_view, 6> kRanks = {"[rank",   "RankID:",  "[Rank ",
                                                             "rankId[", "], rank[", "(Worker_TP"};
  if (const auto rank = first_number(line, kRanks); rank && *rank <= INT32_MAX) {
    origin.rank = static_cast<int>(*rank);
  }
  static constexpr std::array<std::string_view, 6> kDevices = {
      "Device:", "chipId:", "device_id=", "(NPU ", "DEVICE[", "deviceLogicId["};
  if (const auto device = first_number(line, kDevices); device && *device < 4096) {
    origin.device = static_cast<int>(*device);
  }
  if (origin.pid < 0) {
    static constexpr std::array<std::string_view, 4> kPids = {"[PID:", "PID:", "pid=", "pid "};
    origin.pid = first_number(line, kPids).value_or(-1);
  }
  read_host_prefix(origin, line);
  return origin;
}

LineOrigin read_path_origin(std::string_view path) {
  LineOrigin origin;
  static constexpr std::array<std::string_view, 5> kRanks = {"rank_", "rank-", "rank", "worker_",
                                                             "flight-"};
  if (const auto rank = first_number(path, kRanks); rank && *rank < 1000000) {
    origin.rank = static_cast<int>(*rank);
  }
  static constexpr std::array<std::string_view, 3> kDevices = {"device-", "device_", "dev-os-"};
  if (const auto device = first_number(path, kDevices); device && *device < 4096) {
    origin.device = static_cast<int>(*device);
  }
  origin.pid = number_after(path, "plog-").value_or(-1);
  // The last folder that looks like a host.
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const bool is_folder = end < path.size();
    const bool named = part.starts_with("node") || part.starts_with("host") ||
                       part.starts_with("worker-") || part.starts_with("server");
    const bool address = std::count(part.begin(), part.end(), '.') == 3 && !part.empty() &&
                         is_digit(part[0]) && is_digit(part.back());
    if (is_folder && ((named && is_digit(part.back())) || address)) {
      origin.host = part;
    }
    begin = end + 1;
  }
  return origin;
}

LineOrigin merged_origin(const LineOrigin& base, const LineOrigin& later) {
  LineOrigin merged = base;
  if (later.time >= 0) {
    merged.time = later.time;
    merged.has_year = later.has_year;
    merged.time_form = later.time_form;
  }
  merged.pid = later.pid >= 0 ? later.pid : base.pid;
  merged.rank = later.rank >= 0 ? later.rank : base.rank;
  merged.device = later.device >= 0 ? later.device : base.device;
  merged.host = later.host.empty() ? base.host : later.host;
  merged.module = later.module;
  merged.level = later.level;
  return merged;
}

std::string shown_time(double time) {
  if (time < 0) {
    return "";
  }
  const std::tm parts = parts_of(time);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

double in_year_of(double time, double other) {
  const std::tm parts = parts_of(time);
  const auto day = [&](int64_t year) {
    return days_from_civil(year, parts.tm_mon + 1, parts.tm_mday);
  };
  return time + static_cast<double>((day(parts_of(other).tm_year + 1900) - day(kNoYear)) * 86400);
}

}  // namespace plait
