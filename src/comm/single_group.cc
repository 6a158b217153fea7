#include "comm/single_group.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace plait {
namespace {

class SingleGroup final : public ProcessGroup {
 public:
  SingleGroup(std::string name, Device& device) : name_(std::move(name)), device_(device) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }

  Work all_reduce(const AllReduceOptions&) override { return Work(); }
  Work reduce_scatter(const ReduceScatterOptions& options) override {
    return copy(options.output, options.input, options.count * dtype_size(options.dtype));
  }
  Work all_gather(const AllGatherOptions& options) override {
    return copy(options.output, options.input, options.count * dtype_size(options.dtype));
  }
  Work broadcast(const BroadcastOptions& options) override {
    CHECK_EQ(options.root, 0);
    return Work();
  }
  Work all_to_all(const AllToAllOptions& options) override {
    return copy(options.output, options.input, options.bytes);
  }
  Work send(const TransferOptions& options) override { no_peer(options); }
  Work recv(const TransferOptions& options) override { no_peer(options); }
  void barrier() override {}
  std::vector<std::string> gather_bytes(const std::string& mine) override { return {mine}; }

 private:
  // In the order of the device's stream, so there is nothing to wait for.
  Work copy(DevicePtr to, DevicePtr from, int64_t bytes) {
    if (bytes > 0 && to != from) {
      device_.stream().copy(to, from, bytes);
    }
    return Work();
  }
  [[noreturn]] void no_peer(const TransferOptions& options) {
    internal::check_failed(
        __FILE__, __LINE__,
        fmt::format("group {} has one rank, peer {} does not exist", name_, options.peer));
  }

  std::string name_;
  Device& device_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_single_group(const std::string& name, Device& device) {
  return std::make_unique<SingleGroup>(name, device);
}

}  // namespace plait
