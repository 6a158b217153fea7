#include "device/device.h"

namespace plait {

Buffer::Buffer(Device& device, int64_t bytes, MemoryCategory category)
    : device_(device), ptr_(device.allocate(bytes)), bytes_(bytes), category_(category) {
  device_.ledger().add(category_, bytes_);
}

Buffer::~Buffer() {
  device_.ledger().add(category_, -bytes_);
  device_.deallocate(ptr_, bytes_);
}

}  // namespace plait
