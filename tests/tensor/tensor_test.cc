#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include "support/test_device.h"

namespace plait {
namespace {

class TensorTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = test::make_test_device("cpu", 1);
};

TEST_F(TensorTest, KnowsItsShape) {
  const Tensor t(*device_, {3, 4, 5}, DType::kBF16, MemoryCategory::kActivations);
  EXPECT_EQ(t.count(), 60);
  EXPECT_EQ(t.bytes(), 120);
  EXPECT_EQ(t.dim(0), 3);
  EXPECT_EQ(t.dim(-1), 5);
  EXPECT_EQ(t.shape_string(), "bf16[3, 4, 5]");
  EXPECT_TRUE(t);
  EXPECT_FALSE(Tensor());
}

TEST_F(TensorTest, ViewsShareTheStorage) {
  const Tensor t = test::upload(*device_, {4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor row = t.rows(2, 1);
  EXPECT_EQ(test::download(*device_, row), (std::vector<float>{6, 7, 8}));
  EXPECT_EQ(test::download(*device_, t.view(4, {2})), (std::vector<float>{4, 5}));
  device_->kernels().scale(device_->stream(), {.x = row.ptr(), .count = 3, .factor = 10});
  EXPECT_EQ(test::download(*device_, t.reshape({12}))[7], 70.0F);
}

TEST_F(TensorTest, TheLastViewFreesTheStorage) {
  Tensor view;
  {
    const Tensor t(*device_, {10}, DType::kF32, MemoryCategory::kGradients);
    view = t.view(5, {2});
  }
  EXPECT_EQ(device_->ledger().totals().total_bytes, 40);
  view = Tensor();
  EXPECT_EQ(device_->ledger().totals().total_bytes, 0);
}

TEST_F(TensorTest, AnEmptyTensorIsLegal) {
  const Tensor t(*device_, {0, 7}, DType::kF32, MemoryCategory::kWorkspace);
  EXPECT_EQ(t.count(), 0);
  EXPECT_TRUE(t);
  EXPECT_EQ(t.rows(0, 0).count(), 0);
}

TEST(TensorDeathTest, ViewsBeyondTheEndAreBugs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto device = test::make_test_device("cpu", 1);
  const Tensor t(*device, {4}, DType::kF32, MemoryCategory::kWorkspace);
  EXPECT_DEATH(t.view(3, {2}), "count");
  EXPECT_DEATH(t.reshape({5}), "count");
}

}  // namespace
}  // namespace plait
