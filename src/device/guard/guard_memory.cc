#include "device/guard/guard_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error.h"

namespace plait::guard {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
// Thread sanitizer has room for about a TiB of mappings, which many devices must share.
#if defined(__SANITIZE_THREAD__)
constexpr int64_t kReservedBytes = 8 * kGiB;
#else
constexpr int64_t kReservedBytes = 64 * kGiB;
#endif
constexpr int64_t kPageBytes = int64_t{1} << 16;  // the largest page size of the supported CPUs

}  // namespace

GuardMemory::GuardMemory() {
  for (int64_t bytes = kReservedBytes; bytes >= kGiB; bytes /= 2) {
    void* range = mmap(nullptr, static_cast<size_t>(2 * bytes), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range != MAP_FAILED) {
      base_ = static_cast<std::byte*>(range);
      reserved_bytes_ = bytes;
      return;
    }
  }
  throw_error(ErrorCode::kResourceExhausted,
              "the guard device cannot reserve 2 GiB of addresses: raise the limit on virtual "
              "memory (ulimit -v)");
}

GuardMemory::~GuardMemory() {
  munmap(base_, static_cast<size_t>(2 * reserved_bytes_));
}

std::byte* GuardMemory::acquire(int64_t bytes) {
  const int64_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (rounded > available_bytes()) {
    return nullptr;
  }
  std::byte* block = base_ + used_bytes_;
  std::byte* memory = block + reserved_bytes_;
  if (mprotect(memory, static_cast<size_t>(rounded), PROT_READ | PROT_WRITE) != 0) {
    return nullptr;
  }
  std::memset(memory, 0xff, static_cast<size_t>(rounded));
  used_bytes_ += rounded;
  return block;
}

DevicePtr GuardMemory::translate(DevicePtr ptr) const {
  if (!ptr) {
    return ptr;
  }
  PLAIT_CHECK_MSG(ptr >= DevicePtr(base_) && ptr <= DevicePtr(base_ + used_bytes_),
                  "not an address of this device's memory");
  return ptr + reserved_bytes_;
}

}  // namespace plait::guard
