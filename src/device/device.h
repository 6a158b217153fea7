// Device, Buffer, Stream, Event: what a backend provides. Nothing above device/ and comm/ can tell
// backends apart. One Device object belongs to one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_ptr.h"
#include "device/kernels.h"
#include "device/memory_ledger.h"

namespace plait {

class Device;

// A block of device memory; returns to its device's cache when destroyed. The device must outlive
// it. Work queued on the device's compute stream before the destruction still finds the memory
// intact: the cache hands a block out again only to later work.
class Buffer {
 public:
  Buffer(Device& device, int64_t bytes, MemoryCategory category);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  DevicePtr ptr() const { return ptr_; }
  int64_t bytes() const { return bytes_; }
  Device& device() const { return device_; }

 private:
  Device& device_;
  DevicePtr ptr_;
  int64_t bytes_;
  MemoryCategory category_;
};

// A point in a stream's order. Copies share the point. A default-constructed event has passed.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() const = 0;
    virtual void wait() = 0;
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // True when everything queued before the event has finished.
  bool done() const { return state_ == nullptr || state_->done(); }
  // Blocks the calling host thread until done().
  void wait() const {
    if (state_ != nullptr) {
      state_->wait();
    }
  }

 private:
  std::shared_ptr<State> state_;
};

// Work in order. Calls return as soon as the work is queued (a CPU stream has then also done it).
// A stream is used by one host thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;

  // Host to device. The source may be reused when the call returns.
  virtual void copy_to_device(DevicePtr destination, const void* source, int64_t bytes) = 0;
  // Device to host. The destination is valid after synchronize() or a later event has passed.
  virtual void copy_to_host(void* destination, DevicePtr source, int64_t bytes) = 0;
  // Device to device, not overlapping.
  virtual void copy(DevicePtr destination, DevicePtr source, int64_t bytes) = 0;
  // All bytes to zero.
  virtual void zero(DevicePtr destination, int64_t bytes) = 0;

  virtual Event record() = 0;
  // Later work of this stream starts after `event`.
  virtual void wait(const Event& event) = 0;
  // Blocks until all queued work has finished. An error of queued work surfaces here.
  virtual void synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // As in the registry: "cpu", "guard".
  virtual const std::string& name() const = 0;
  // The stream that all compute of the rank runs on.
  virtual Stream& stream() = 0;
  // The operators. Work goes to the stream that is passed to each call.
  virtual Kernels& kernels() = 0;

  // Address at which the host can reach device memory, or nullptr where it cannot. For transports
  // of the same host (comm/local, comm/mpi) only.
  virtual std::byte* host_view(DevicePtr ptr) = 0;

  // Has the system provide the memory of a buffer now, where it would do so page by page at first
  // use; keeps the contents. A hint: does nothing where that is not known. Only on the rank's own
  // thread.
  virtual void populate(DevicePtr /*ptr*/, int64_t /*bytes*/) {}

  MemoryLedger& ledger() { return ledger_; }

 protected:
  friend class Buffer;
  // 64-byte aligned. Errors: kResourceExhausted. Thread-safe.
  virtual DevicePtr allocate(int64_t bytes) = 0;
  virtual void deallocate(DevicePtr ptr, int64_t bytes) noexcept = 0;

 private:
  MemoryLedger ledger_;
};

struct DeviceOptions {
  int num_threads = 1;
  double spin_us = 50;  // see ThreadPoolOptions
};

// The names that make_device() knows, in a fixed order.
std::vector<std::string> device_names();

// Makes a device by name. Errors: kInvalidArgument listing the names that exist.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options);

}  // namespace plait
