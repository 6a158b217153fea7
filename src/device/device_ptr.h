// An address in device memory. Host code may do arithmetic on it and hand it to kernels and
// transports; it may not look behind it (the guard device faults when it does).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace plait {

class DevicePtr {
 public:
  DevicePtr() = default;
  explicit DevicePtr(void* address) : address_(static_cast<std::byte*>(address)) {}

  // Byte arithmetic.
  DevicePtr operator+(int64_t bytes) const { return DevicePtr(address_ + bytes); }
  explicit operator bool() const { return address_ != nullptr; }
  // NOLINTNEXTLINE(modernize-use-nullptr): taken for one by this release
  auto operator<=>(const DevicePtr&) const = default;

  // For device/ and comm/ backends only: the address as the backend's typed pointer.
  template <typename T>
  T* as() const {
    return static_cast<T*>(static_cast<void*>(address_));
  }

 private:
  std::byte* address_ = nullptr;
};

}  // namespace plait
