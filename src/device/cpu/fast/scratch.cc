#include "device/cpu/fast/scratch.h"

#include <new>

namespace plait::cpu::fast {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void Scratch::Free::operator()(float* block) const {
  ::operator delete(block, kAlignment);
}

float* Scratch::floats(int64_t count) {
  if (count > count_) {
    block_.reset();
    count_ = 0;
    block_.reset(static_cast<float*>(
        ::operator new(static_cast<size_t>(count) * sizeof(float), kAlignment)));
    count_ = count;
  }
  return block_.get();
}

Scratch& thread_scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

}  // namespace plait::cpu::fast
