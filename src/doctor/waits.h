// Who was waited for: from the ranks that report a time-out, and those that they name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "doctor/findings.h"

namespace plait {

struct WaitedFor {
  std::string rank;                  // "9"; "8,9" if as many wait for each; "" if it cannot be told
  std::string host;                  // as the waiting ranks name it
  std::string device;                // of its host
  std::string reason;                // "6 ranks wait and name it; it reports no wait itself"
  std::set<int> named;               // `rank`, if the waiting ranks name it
  const Finding* told_by = nullptr;  // names it; null if none does
};

// Symptoms name the rank they wait for (captures g_rank, g_host, g_device) and the size of the
// group (rank_size); of those that were found, all lines count, as a rank may wait for several. The
// guilty is whom most wait for and who does not wait itself; if nobody is named, the ranks of the
// group that report nothing while at least half of it waits (of a group of unknown size: a few
// ranks below those that do).
WaitedFor find_waited_for(const std::vector<ScannedFile>& files,
                          const std::vector<Finding>& findings);

}  // namespace plait
