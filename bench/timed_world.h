// A rank's world with the same device behind kernels that are timed one by one. Honest only where a
// stream does its work at once, as the CPU's does: then a call's time is the kernel's.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "device/device.h"

namespace plait {

// Seconds by kernel name since clear(); "matmul", "attention_forward", ... Used by the rank's host
// thread.
class KernelTimes {
 public:
  void clear() { seconds_.clear(); }
  void add(const char* kernel, double seconds) { seconds_[kernel] += seconds; }
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  std::map<std::string, double> seconds_;
};

class TimedKernels final : public Kernels {
 public:
  TimedKernels(Kernels& kernels, KernelTimes& times) : kernels_(kernels), times_(times) {}
  void matmul(Stream& stream, const MatmulArgs& args) override;
  void rms_norm_forward(Stream& stream, const RmsNormForwardArgs& args) override;
  void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) override;
  void rope(Stream& stream, const RopeArgs& args) override;
  void attention_forward(Stream& stream, const AttentionForwardArgs& args) override;
  void attention_backward(Stream& stream, const AttentionBackwardArgs& args) override;
  void swiglu_forward(Stream& stream, const SwigluForwardArgs& args) override;
  void swiglu_backward(Stream& stream, const SwigluBackwardArgs& args) override;
  void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) override;
  void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) override;
  void row_max(Stream& stream, const RowMaxArgs& args) override;
  void sum_exp(Stream& stream, const SumExpArgs& args) override;
  void cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& args) override;
  void cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) override;
  void add(Stream& stream, const AddArgs& args) override;
  void add_bias(Stream& stream, const AddBiasArgs& args) override;
  void column_sum(Stream& stream, const ColumnSumArgs& args) override;
  void cast(Stream& stream, const CastArgs& args) override;
  void scale(Stream& stream, const ScaleArgs& args) override;
  void sum_squares(Stream& stream, const SumSquaresArgs& args) override;
  void adamw(Stream& stream, const AdamwArgs& args) override;
  int64_t packed_weight_bytes(const PackedWeight& weight) const override {
    return kernels_.packed_weight_bytes(weight);
  }
  int64_t kv_block_bytes(const KvLayout& layout) const override {
    return kernels_.kv_block_bytes(layout);
  }
  void pack_weight(Stream& stream, const PackWeightArgs& args) override;
  void matmul_packed(Stream& stream, const MatmulPackedArgs& args) override;
  void embedding_packed(Stream& stream, const EmbeddingPackedArgs& args) override;
  void norm_rows(Stream& stream, const NormRowsArgs& args) override;
  void prepare_qkv(Stream& stream, const PrepareQkvArgs& args) override;
  void paged_attention(Stream& stream, const PagedAttentionArgs& args) override;
  void row_argmax(Stream& stream, const RowArgmaxArgs& args) override;

 private:
  template <typename Args>
  void timed(const char* name, void (Kernels::*kernel)(Stream&, const Args&), Stream& stream,
             const Args& args);
  Kernels& kernels_;
  KernelTimes& times_;
};

// Memory of `device`, which must outlive it; its ledger counts there.
class TimedDevice final : public Device {
 public:
  explicit TimedDevice(Device& device) : device_(device), kernels_(device.kernels(), times_) {}
  const std::string& name() const override { return device_.name(); }
  Stream& stream() override { return device_.stream(); }
  Kernels& kernels() override { return kernels_; }
  std::byte* host_view(DevicePtr ptr) override { return device_.host_view(ptr); }
  KernelTimes& times() { return times_; }

 private:
  DevicePtr allocate(int64_t bytes) override;
  void deallocate(DevicePtr ptr, int64_t bytes) noexcept override;

  Device& device_;
  KernelTimes times_;
  TimedKernels kernels_;
  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Buffer>> buffers_;
};

class TimedWorld final : public World {
 public:
  explicit TimedWorld(World& world) : world_(world), device_(world.device()) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  Device& device() override { return device_; }
  std::unique_ptr<ProcessGroup> create_group(
      const std::string& name, const std::vector<std::vector<int>>& partition) override {
    return world_.create_group(name, partition);
  }
  void abort(const std::string& reason) override { world_.abort(reason); }
  KernelTimes& times() { return device_.times(); }

 private:
  World& world_;
  TimedDevice device_;
};

}  // namespace plait
