// Sends and receives of one group over MPI. Transfers between two ranks match in call order. Those
// that are asynchronous start when the device's earlier work is done and are progressed by a thread
// of the group (Open MPI moves large messages only while somebody calls it), and by whoever waits.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_requests.h"
#include "comm/mpi/side_channel.h"
#include "comm/op_state.h"
#include "comm/process_group.h"

namespace plait {

struct MpiTransfersOptions {
  std::string name;
  std::vector<int> ranks;  // world ranks by group rank
  int rank = 0;
  MPI_Comm comm = MPI_COMM_NULL;  // used by nobody else; not freed here
  Device* device = nullptr;
  SideChannel* side_channel = nullptr;
  double deadline_s = 30;
  bool may_spin = false;
};

class MpiTransfers {
 public:
  explicit MpiTransfers(MpiTransfersOptions options);
  ~MpiTransfers();
  MpiTransfers(const MpiTransfers&) = delete;
  MpiTransfers& operator=(const MpiTransfers&) = delete;

  Work send(const TransferOptions& options) { return start(OpKind::kSend, options); }
  Work recv(const TransferOptions& options) { return start(OpKind::kRecv, options); }

 private:
  struct Shared;
  struct Transfer;
  class TransferWork;

  Work start(OpKind kind, const TransferOptions& options);
  void pump();

  std::shared_ptr<Shared> shared_;
  std::thread pump_;  // started by the first asynchronous transfer
};

}  // namespace plait
