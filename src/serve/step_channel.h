// Carries step messages from rank 0 of a world to the others: one broadcast for a message of usual
// length, two for a longer one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "tensor/tensor.h"

namespace plait {

class StepChannel {
 public:
  struct Options {
    int64_t max_words = 0;  // of a message
  };
  // `group` holds every rank and must outlive the channel.
  StepChannel(ProcessGroup& group, Device& device, const Options& options);

  // Rank 0. Collective with receive() of the others.
  void send(std::span<const int32_t> words);
  // Valid until the next call. Waits as long as the group's deadline, so rank 0 sends something
  // well within it.
  std::span<const int32_t> receive();

 private:
  static constexpr int64_t kFirstWords = 1024;

  ProcessGroup& group_;
  Device& device_;
  Tensor buffer_;
  std::vector<int32_t> words_;
};

}  // namespace plait
