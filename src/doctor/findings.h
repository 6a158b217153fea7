// Which rules hold in scanned logs, where, and since when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/fault_rules.h"
#include "doctor/log_scan.h"

namespace plait {

struct LinePlace {
  size_t file = 0;  // index of the scanned files
  size_t line = 0;  // index of ScannedFile::lines
};

// A rule that holds, once for each file and rank it holds in.
struct Finding {
  const FaultRule* rule = nullptr;
  std::vector<LinePlace> places;  // the first is the line that `any` matched
  Captures captures;              // of all places
  LineOrigin origin;              // of the first place; time on the common clock
  int64_t count = 1;              // lines that matched
};

// A rule whose text is there but whose conditions do not hold.
struct Rejection {
  const FaultRule* rule = nullptr;
  LinePlace place;
  std::string reason;
};

struct FindingList {
  std::vector<Finding> findings;  // by file, then line
  std::vector<Rejection> rejections;
};

FindingList find_faults(const std::vector<ScannedFile>& files, const RuleSet& rules);

// Applies the clocks that `plait doctor collect` measured: HOST/plait-state/clock.txt of an archive
// holds for all files below HOST/, which also get that host's name where their lines tell none.
// Takes out what is below plait-state/: it is no log. Returns one sentence for each host whose
// clock is a second or more off.
std::vector<std::string> apply_collected_clocks(std::vector<ScannedFile>& files,
                                                const RuleSet& rules);

// Brings the clocks of files together: lines about the same collective (the same tag) are taken to
// be of the same moment (that of its call, where the lines tell it), and a file whose clock is off
// by more than a minute (median over its tags) is corrected, in place; not one of the same host, or
// one whose process joined a communicator at the same time as the others. A year that lines lack is
// that of the latest line that has one. Returns one sentence for each corrected file.
std::vector<std::string> align_clocks(std::vector<ScannedFile>& files, const RuleSet& rules);

// Takes out what torchrun's table of failed workers says of all but the first: torchrun itself ends
// those, by signals that would read as kills from outside.
void drop_ended_workers(std::vector<ScannedFile>& files, const RuleSet& rules);

// "{peer} is down" with the captured words put in; what is not captured reads "(not told)", a
// device "N". "({peer})" alone goes, with the blank in front of it. Braces around anything but a
// name stand for themselves.
std::string filled_in(const std::string& text, const Captures& captures);

}  // namespace plait
