// Which logs belong to one job, where a folder holds those of several.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/fault_rules.h"
#include "doctor/log_scan.h"

namespace plait {

struct JobLogs {
  std::string name;           // "slurm-812", "pids 4711, 4712", for people
  std::vector<size_t> files;  // indices; files that tell nothing of a job are in all of them
  double last_time = -1;      // of its lines
};

// Files go together by the names of jobs in their paths (slurm-812.out, job-7/), by the identifiers
// of communicators and by the process id of a plog. Groups are taken for different jobs only for a
// reason: other job names, the same rank or device with another process and other communicators, or
// other communicators at times that lie apart. One entry, with all files, if there is none.
std::vector<JobLogs> split_jobs(const std::vector<ScannedFile>& files, const RuleSet& rules);

// "192.0.2.1%eth0_60000_0_1694500287022627" of a tag or identifier: address, interface, port and
// the microsecond in which the communicator was made, which no other has. "" if it has none.
std::string communicator_of(std::string_view text);

}  // namespace plait
