// Memory that a kernel call needs besides its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace plait::cpu::fast {

// 64-byte aligned floats that grow on demand and are never read before they are written.
class Scratch {
 public:
  float* floats(int64_t count);

 private:
  struct Free {
    void operator()(float* block) const;
  };
  std::unique_ptr<float, Free> block_;
  int64_t count_ = 0;
};

// One per thread, reused by every call: page faults would cost more than the small kernels. Valid
// until the next call of thread_scratch() on the thread.
Scratch& thread_scratch();

}  // namespace plait::cpu::fast
