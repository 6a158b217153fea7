// What the guard device promises beyond the common contract.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>

#include "base/error.h"
#include "device/guard/guard_device.h"
#include "support/test_device.h"

namespace plait {
namespace {

using guard::GuardDevice;
using guard::GuardStream;

// Holds a stream's worker until opened.
class Gate {
 public:
  explicit Gate(Device& device) {
    static_cast<GuardStream&>(device.stream()).enqueue([opened = open_.get_future().share()] {
      opened.wait();
    });
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

TEST(GuardDeathTest, HostReadsAndWritesFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto device = test::make_test_device("guard");
  const Tensor a = test::upload(*device, {4}, {1, 2, 3, 4});
  device->stream().synchronize();
  volatile float* address = a.ptr().as<float>();
  EXPECT_DEATH({ [[maybe_unused]] const float x = address[0]; }, "");
  EXPECT_DEATH(address[0] = 1, "");
}

TEST(GuardDeathTest, HostMemoryIsRefusedAsAKernelArgument) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto device = test::make_test_device("guard");
  float x = 1;
  EXPECT_DEATH(device->kernels().scale(device->stream(), {.x = DevicePtr(&x), .count = 1}),
               "not an address of this device");
}

TEST(GuardTest, WorkRunsBehindTheCaller) {
  const auto device = test::make_test_device("guard");
  Gate gate(*device);
  std::vector<float> result(2, 0.0F);
  const Tensor a = test::upload(*device, {2}, {1, 2});
  device->stream().copy_to_host(result.data(), a.ptr(), a.bytes());
  const Event event = device->stream().record();
  EXPECT_FALSE(event.done());
  EXPECT_EQ(result, (std::vector<float>{0, 0}));
  gate.open();
  event.wait();
  EXPECT_EQ(result, (std::vector<float>{1, 2}));
}

TEST(GuardTest, AStreamWaitsForTheEventOfAnother) {
  const auto first = test::make_test_device("guard");
  const auto second = test::make_test_device("guard");
  std::atomic<bool> first_done = false;
  bool seen = false;
  Gate gate(*first);
  static_cast<GuardStream&>(first->stream()).enqueue([&] { first_done = true; });
  second->stream().wait(first->stream().record());
  static_cast<GuardStream&>(second->stream()).enqueue([&] { seen = first_done; });
  const Event end = second->stream().record();
  EXPECT_FALSE(end.done());
  gate.open();
  end.wait();
  EXPECT_TRUE(seen);
}

TEST(GuardTest, AnErrorSurfacesAtSynchronizeAndStopsTheStream) {
  const auto device = test::make_test_device("guard");
  auto& stream = static_cast<GuardStream&>(device->stream());
  bool ran = false;
  stream.enqueue([] { throw_error(ErrorCode::kIo, "broken"); });
  stream.enqueue([&] { ran = true; });
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_THROW(stream.record().wait(), Error);
  EXPECT_FALSE(ran);
}

TEST(GuardTest, EventsOutliveTheirStream) {
  Event event;
  {
    const auto device = test::make_test_device("guard");
    const Tensor a = test::upload(*device, {2}, {1, 2});
    event = device->stream().record();
  }
  EXPECT_TRUE(event.done());
  event.wait();
}

TEST(GuardTest, FreshAndFreedMemoryIsNaN) {
  const auto device = test::make_test_device("guard");
  DevicePtr old;
  for (int round = 0; round < 2; ++round) {
    const Tensor a(*device, {1000}, DType::kF32, MemoryCategory::kWorkspace);
    EXPECT_TRUE(round == 0 || a.ptr() == old);
    old = a.ptr();
    for (const float x : test::download(*device, a)) {
      ASSERT_TRUE(std::isnan(x));
    }
    device->stream().zero(a.ptr(), a.bytes());
  }
}

TEST(GuardTest, TheQueueIsBounded) {
  const auto device = test::make_test_device("guard");
  auto& stream = static_cast<GuardStream&>(device->stream());
  Gate gate(*device);
  std::atomic<int> queued = 0;
  std::thread producer([&] {
    for (int i = 0; i < 2000; ++i) {
      stream.enqueue([] {});
      ++queued;
    }
  });
  while (queued < 256) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LT(queued, 300);
  gate.open();
  producer.join();
  stream.synchronize();
  EXPECT_EQ(queued, 2000);
}

TEST(GuardTest, ManyDevicesCoexist) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < 16; ++i) {
    devices.push_back(test::make_test_device("guard", 1));
  }
  std::vector<std::thread> ranks;
  std::atomic<int> correct = 0;
  for (int i = 0; i < 16; ++i) {
    ranks.emplace_back([&, i] {
      Device& device = *devices[static_cast<size_t>(i)];
      const Tensor a = test::upload(device, {1000}, test::random_values(1, 1000));
      device.kernels().scale(device.stream(), {.x = a.ptr(), .count = 1000, .factor = 2});
      correct += test::download(device, a) == test::random_values(1, 1000, 2) ? 1 : 0;
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  EXPECT_EQ(correct, 16);
}

}  // namespace
}  // namespace plait
