// Which process wrote a line, and which rank, device and server that process is. The files of one
// process (its plog, its run log, the logs of its device) each tell a part of that.
#pragma once

#include <string>
#include <vector>

#include "doctor/fault_rules.h"
#include "doctor/log_scan.h"

namespace plait {

// The same for ".../debug/plog/plog-77_1.log", ".../run/plog/plog-77_2.log" and
// ".../debug/device-3/device-77_1.log"; "" for files of other names.
std::string process_of_path(const std::string& path);

// As process_of_path(), for the process that the line itself names; of other files its own name
// and the process id. "" if neither tells.
std::string process_of(const ScannedFile& file, const LogLine& line);

// Gives the lines of a process the rank, device and server that it told when it joined its largest
// communicator (unless the path names the rank), and the lines that wait for a device of the same
// server the rank of that device: g_rank, g_host.
void name_processes(std::vector<ScannedFile>& files, const RuleSet& rules);

}  // namespace plait
