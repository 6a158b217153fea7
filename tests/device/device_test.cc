// Buffers, streams, the ledger and the registry, on every device.
#include <gtest/gtest.h>

#include <utility>

#include "base/error.h"
#include "support/test_device.h"

namespace plait {
namespace {

using test::download;
using test::upload;

class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Device> device_ = test::make_test_device(GetParam());
};

TEST_P(DeviceTest, HasItsName) {
  EXPECT_EQ(device_->name(), GetParam());
}

TEST_P(DeviceTest, CopiesThereAndBack) {
  const std::vector<float> values = test::random_values(1, 1000);
  const Tensor a = upload(*device_, {1000}, values);
  const Tensor b(*device_, {1000}, DType::kF32, MemoryCategory::kWorkspace);
  device_->stream().copy(b.ptr(), a.ptr(), a.bytes());
  EXPECT_EQ(download(*device_, b), values);
}

TEST_P(DeviceTest, SourceOfAnUploadMayBeReusedAtOnce) {
  std::vector<float> values(1 << 20, 3.0F);
  const Tensor a(*device_, {1 << 20}, DType::kF32, MemoryCategory::kWorkspace);
  device_->stream().copy_to_device(a.ptr(), values.data(), a.bytes());
  std::fill(values.begin(), values.end(), 4.0F);
  EXPECT_EQ(download(*device_, a), std::vector<float>(1 << 20, 3.0F));
}

TEST_P(DeviceTest, ZeroTouchesItsRangeOnly) {
  const Tensor a = upload(*device_, {6}, {1, 2, 3, 4, 5, 6});
  device_->stream().zero(a.ptr() + 8, 8);
  EXPECT_EQ(download(*device_, a), (std::vector<float>{1, 2, 0, 0, 5, 6}));
}

TEST_P(DeviceTest, WorkRunsInTheOrderOfTheCalls) {
  const Tensor a = upload(*device_, {4}, {1, 1, 1, 1});
  for (int i = 0; i < 100; ++i) {
    device_->kernels().add(device_->stream(),
                           {.x = a.ptr(), .other = a.ptr(), .y = a.ptr(), .count = 4});
    device_->kernels().scale(device_->stream(), {.x = a.ptr(), .count = 4, .factor = 0.5F});
  }
  device_->kernels().scale(device_->stream(), {.x = a.ptr(), .count = 4, .factor = 3});
  EXPECT_EQ(download(*device_, a), (std::vector<float>{3, 3, 3, 3}));
}

TEST_P(DeviceTest, EventPassesAfterTheWorkBeforeIt) {
  std::vector<float> result(1 << 18);
  const Tensor a = upload(*device_, {1 << 18}, std::vector<float>(1 << 18, 2.0F));
  device_->kernels().scale(device_->stream(), {.x = a.ptr(), .count = 1 << 18, .factor = 2});
  device_->stream().copy_to_host(result.data(), a.ptr(), a.bytes());
  const Event event = device_->stream().record();
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(result, std::vector<float>(1 << 18, 4.0F));
  EXPECT_TRUE(Event().done());
}

TEST_P(DeviceTest, AFreedBlockStaysIntactForQueuedWork) {
  const Tensor sum = upload(*device_, {1000}, std::vector<float>(1000, 0.0F));
  for (int i = 0; i < 50; ++i) {
    // Dies before the queue has run; the next round gets the same block.
    const Tensor one = upload(*device_, {1000}, std::vector<float>(1000, 1.0F));
    device_->kernels().add(device_->stream(),
                           {.x = sum.ptr(), .other = one.ptr(), .y = sum.ptr(), .count = 1000});
  }
  EXPECT_EQ(download(*device_, sum), std::vector<float>(1000, 50.0F));
}

TEST_P(DeviceTest, BlocksAreAlignedAndReused) {
  DevicePtr first;
  {
    const Buffer buffer(*device_, 100000, MemoryCategory::kWorkspace);
    first = buffer.ptr();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.as<void>()) % 64, 0U);
  }
  const Buffer again(*device_, 99999, MemoryCategory::kWorkspace);
  EXPECT_EQ(again.ptr(), first);
  const Buffer other(*device_, 100000, MemoryCategory::kWorkspace);
  EXPECT_NE(other.ptr(), first);
}

TEST_P(DeviceTest, LedgerCountsRequestedBytesByCategory) {
  const auto weights = static_cast<size_t>(MemoryCategory::kWeights);
  const auto comm = static_cast<size_t>(MemoryCategory::kComm);
  const Buffer kept(*device_, 1001, MemoryCategory::kWeights);
  {
    const Buffer gone(*device_, 77, MemoryCategory::kComm);
    EXPECT_EQ(device_->ledger().totals().current_bytes[comm], 77);
  }
  const MemoryLedger::Totals totals = device_->ledger().totals();
  EXPECT_EQ(totals.current_bytes[weights], 1001);
  EXPECT_EQ(totals.current_bytes[comm], 0);
  EXPECT_EQ(totals.peak_bytes[comm], 77);
  EXPECT_EQ(totals.total_bytes, 1001);
  EXPECT_EQ(totals.total_peak_bytes, 1078);
}

TEST_P(DeviceTest, TooLargeABlockIsRefusedWithBothNumbers) {
  const int64_t bytes = int64_t{1} << 50;
  try {
    const Buffer buffer(*device_, bytes, MemoryCategory::kWorkspace);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_NE(error.message().find(std::to_string(bytes)), std::string::npos) << error.message();
  }
  EXPECT_EQ(device_->ledger().totals().total_bytes, 0);
}

TEST_P(DeviceTest, HostViewReachesTheMemory) {
  const Tensor a = upload(*device_, {3}, {1, 2, 3});
  device_->stream().synchronize();
  std::byte* view = device_->host_view(a.ptr());
  if (view != nullptr) {
    EXPECT_EQ(reinterpret_cast<const float*>(view)[2], 3.0F);
    EXPECT_EQ(device_->host_view(a.ptr() + 4), view + 4);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, testing::ValuesIn(test::all_devices()),
                         [](const auto& each) { return each.param; });

TEST(RegistryTest, UnknownNameListsTheKnownOnes) {
  try {
    make_device("gpu", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    for (const std::string& name : device_names()) {
      EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace plait
