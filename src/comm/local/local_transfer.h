// Sends and receives between ranks that are threads of this process. The side that comes second
// copies, straight from the sender's buffer into the receiver's.
//
// Transfers are ordered per pair and direction, and with earlier work of each side's device stream;
// they are not ordered with the group's collectives. A blocking send of at most kBufferedBytes
// returns at once (its bytes are copied aside); a larger one returns when it has been received, so
// two ranks that send to each other before they receive should send asynchronously.
#pragma once

#include <memory>

#include "comm/local/group_state.h"
#include "comm/process_group.h"
#include "comm/progress_thread.h"

namespace plait {

constexpr int64_t kBufferedBytes = 65536;

class LocalTransfers {
 public:
  LocalTransfers(std::shared_ptr<GroupState> state, int group_rank, Device& device);
  ~LocalTransfers();
  LocalTransfers(const LocalTransfers&) = delete;
  LocalTransfers& operator=(const LocalTransfers&) = delete;

  Work send(const TransferOptions& options);
  Work recv(const TransferOptions& options);

 private:
  class TransferWork;

  Work start(OpKind kind, const TransferOptions& options);
  void match(const std::shared_ptr<Transfer>& send, const std::shared_ptr<Transfer>& recv,
             bool async);

  std::shared_ptr<GroupState> state_;
  const int rank_;
  Device& device_;
  std::unique_ptr<ProgressThread> copier_;  // for devices whose streams lag behind the host
};

}  // namespace plait
