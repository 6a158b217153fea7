// One archive of the logs and the state of hosts, without secrets, that `plait doctor logs` reads.
//   HOST/files/PATH     logs (.gz unpacked; of long ones the front and the newest part)
//   HOST/dmesg.txt      the kernel's messages, if this user may read them
//   HOST/plait-state/   what is no log:
//     clock.txt           how far its clock is from the collecting host's
//     env/...             as `plait doctor env --record` writes it
//     removed.txt         secrets that were taken out, by kind and file
//     left_out.txt        files that were cut or left out, and why
//     problem.txt         what went wrong with this host
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/redact.h"

namespace plait {

struct CollectOptions {
  std::vector<std::string> paths;          // files and folders
  int64_t max_bytes = int64_t{200} << 20;  // of the archive
  bool state = true;                       // env and dmesg too
};

struct CollectSummary {
  int64_t num_files = 0;
  int64_t num_left_out = 0;  // or cut
  RedactionCounts removed;
  std::vector<std::string> problems;  // "HOST: what"
};

// Writes this host's part to `archive`, without the HOST/ before the names. The newest files come
// first and as many as fit. Errors: kNotFound for a path; kIo, kResourceExhausted for the archive.
void collect_host(const CollectOptions& options, const std::string& archive);

struct HostPart {
  std::string host;
  std::string archive;  // "": there is none
  std::string problem;  // why
  double offset_s = 0;  // its wall clock minus the collecting host's
  double uncertainty_s = 0;
};

// One archive of all parts. Hosts of the same name get -2, -3... A part that is damaged gives what
// can be read; what was wrong is in problem.txt and in the summary. Errors: kIo,
// kResourceExhausted.
CollectSummary merge_parts(const std::vector<HostPart>& parts, const std::string& archive);

}  // namespace plait
