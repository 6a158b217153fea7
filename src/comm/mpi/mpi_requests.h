// Non-blocking MPI transfers in flight together, and waiting for them with a deadline.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace plait {

// Throws kComm when an MPI call failed; `what` names it.
void check_mpi(int code, const char* what);

// What a wait of `elapsed_s` so far does before it looks again: spins for 2 ms if it may, then
// sleeps for ever longer times up to 1 ms.
void pause_between_looks(bool may_spin, double elapsed_s);

struct MpiWait {
  double deadline_s = 30;
  bool may_spin = false;          // else: short sleeps between looks
  std::function<bool()> stopped;  // give up early
};

enum class MpiWaitResult { kDone, kStopped, kDeadline };

// Transfers to and from ranks of one communicator. Messages of more than 1 GiB travel in pieces.
class MpiRequests {
 public:
  explicit MpiRequests(MPI_Comm comm) : comm_(comm) {}
  // Cancels receives that are still open, so that their buffers may go.
  ~MpiRequests();
  MpiRequests(MpiRequests&& other) noexcept = default;
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;

  void send(int peer, const std::byte* data, int64_t bytes, int tag = 0);
  void recv(int peer, std::byte* data, int64_t bytes, int tag = 0);

  // True when all are complete. Does not block.
  bool test();
  MpiWaitResult wait(const MpiWait& options);
  // Ranks of the communicator whose transfers are open, ascending.
  std::vector<int> pending_peers() const;

 private:
  void add(int peer, bool is_recv, MPI_Request request);

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;
  std::vector<bool> is_recv_;
  std::vector<int> completed_;  // scratch
};

}  // namespace plait
