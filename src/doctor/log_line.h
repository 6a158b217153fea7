// Who wrote a log line, and when: the forms that CANN, torch_npu, MindSpore, vLLM, glog, Linux and
// plait print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

// How a line writes its time; programs that use the same form on one host share its time zone.
enum class TimeForm { kNone, kDate, kMonthDay, kGlog, kMonthName };

struct LineOrigin {
  double time = -1;       // seconds since 1970 as the clock of the line shows them; < 0: none
  bool has_year = false;  // without one, `time` lies in kNoYear
  TimeForm time_form = TimeForm::kNone;
  int64_t pid = -1;
  int rank = -1;
  int device = -1;
  std::string host;    // "" if the line does not tell
  std::string module;  // "HCCL", ...; "" if it is no CANN record
  char level = 0;      // 'E', 'W' (also of loggers that go below it), 'I', ... or 0
};

// A leap year, so that no day is lost.
constexpr int64_t kNoYear = 1972;
// A time in kNoYear, moved into the year of another one.
double in_year_of(double time, double other);

// Reads at most the first 400 bytes. Never throws; what cannot be read is left out.
LineOrigin read_line_origin(std::string_view line);

// Rank, device and host that a path names: ".../node3/rank_5.log", "device-2/", "worker-1-0.log",
// "192.0.2.7/plog/plog-77_2025.log" (the process id too).
LineOrigin read_path_origin(std::string_view path);

// Fields that `later` has replace those of `base`.
LineOrigin merged_origin(const LineOrigin& base, const LineOrigin& later);

// "2025-09-12 07:11:27" of LineOrigin::time; "" if there is none.
std::string shown_time(double time);

}  // namespace plait
