// Lost peers, as the whole process sees them. Process-wide by nature: a peer that died concerns the
// process, and signal handlers have no object to ask.
#pragma once

#include <cstdint>
#include <string>

namespace plait {

// True once this process knows that a rank was lost or has failed (its own included). A SIGTERM
// that arrives then (Open MPI sends one to the survivors) must not start anything collective, such
// as a checkpoint. Async-signal-safe.
bool peer_lost();
void set_peer_lost();

// A launcher that sees a rank die sends SIGTERM to the others, often before they have noticed. Who
// is about to end the process for such a signal asks first: true if a loss is known within half a
// second, and the process then reports it and leaves by itself. Async-signal-safe.
bool await_peer_lost();

// Does so for a SIGTERM that nobody handles.
void hold_sigterm_for_report();

// What one rank knows about a lost one.
struct FaultReport {
  int rank = 0;  // of this process
  int lost_rank = 0;
  std::string lost_host;
  int64_t lost_pid = 0;
  std::string how;             // "its connection closed: it was killed or crashed"
  std::string lost_operation;  // as describe_operations()
  std::string own_operation;
};

// "rank 1 (host a, pid 123) was lost: ...; it was in ...; rank 0 was in ..."
std::string format_fault(const FaultReport& report);

// Prints format_fault() as one line on stderr and, unless run_dir is empty, writes the report to
// <run_dir>/fault-rank<rank>.json. Never throws: a report that cannot be written is said on stderr.
void report_fault(const FaultReport& report, const std::string& run_dir) noexcept;

}  // namespace plait
