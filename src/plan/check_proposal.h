// The smallest change that makes a job work: fewest changed settings, then fastest.
#pragma once

#include <optional>
#include <vector>

#include "plan/check.h"

namespace plait {

// What the search may use.
struct ProposalRequest {
  const ReadJob* read = nullptr;
  // Errors of flags that the job no longer shows: each counts as a change of its own.
  std::vector<CheckProblem> fixed;
  const Cluster* cluster = nullptr;  // null: rules alone
};

// Tries up to four changed settings of tp, pp, cp, ep, micro batch, ZeRO, recomputation, sequence
// parallelism, virtual stages, a limit of the memory pool and, where a rule asks for it, batch,
// length, split of the layers and number of devices. Lists of recomputing layers follow the split.
// Absent if none of them works. Deterministic.
std::optional<Proposal> find_proposal(const ProposalRequest& request);

// Settings in which `after` differs from what was read, as the file's program writes them.
std::vector<ProposedChange> changed_settings(const ReadJob& read, const TrainJob& after);

// The layers of a virtual stage, if that is how the file sets the virtual stages; else 0.
int64_t layers_per_virtual_stage(const ReadJob& read);

}  // namespace plait
