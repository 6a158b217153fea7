#include "comm_test/pattern.h"

#include <algorithm>
#include <cstring>

namespace plait {
namespace {

// Integers up to here are exact.
int64_t exact_limit(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 256;
    case DType::kF16:
      return 2048;
    case DType::kF32:
      return int64_t{1} << 24;
    case DType::kI32:
      return int64_t{1} << 30;
    case DType::kI64:
      return int64_t{1} << 40;
  }
  return 0;
}

void store(DType dtype, int64_t value, std::byte* out) {
  const auto put = [out](auto x) { std::memcpy(out, &x, sizeof x); };
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(value));
    case DType::kBF16:
      return put(to_bf16(static_cast<float>(value)).bits);
    case DType::kF16:
      return put(to_f16(static_cast<float>(value)).bits);
    case DType::kI32:
      return put(static_cast<int32_t>(value));
    case DType::kI64:
      return put(value);
  }
}

bool adds(TestOp op) {
  return op == TestOp::kAllReduce || op == TestOp::kReduceScatter;
}

}  // namespace

TestPattern::TestPattern(TestOp op, DType dtype, ReduceOp reduce, int rank, int ranks, int root)
    : op_(op), dtype_(dtype), reduce_(reduce), rank_(rank), ranks_(ranks), root_(root) {
  const bool sums = adds(op) && reduce == ReduceOp::kSum;
  limit_ = std::min<int64_t>(exact_limit(dtype) / (sums ? ranks : 1), 1 << 20);
}

// Neighbouring blocks, ranks and elements differ.
int64_t TestPattern::element(int source, int destination, int64_t index) const {
  auto x = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ULL +
           static_cast<uint64_t>(source) * 0xbf58476d1ce4e5b9ULL +
           static_cast<uint64_t>(destination) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return static_cast<int64_t>(x % static_cast<uint64_t>(std::max<int64_t>(limit_, 1)));
}

int64_t TestPattern::input_blocks() const {
  return op_ == TestOp::kReduceScatter || op_ == TestOp::kAllToAll ? ranks_ : 1;
}

int64_t TestPattern::output_blocks() const {
  return op_ == TestOp::kAllGather || op_ == TestOp::kAllToAll ? ranks_ : 1;
}

std::vector<std::byte> TestPattern::input(int64_t count) const {
  const int64_t size = dtype_size(dtype_);
  std::vector<std::byte> bytes(static_cast<size_t>(count * input_blocks() * size));
  for (int64_t block = 0; block < input_blocks(); ++block) {
    for (int64_t i = 0; i < count; ++i) {
      store(dtype_, element(rank_, static_cast<int>(block), i),
            bytes.data() + (block * count + i) * size);
    }
  }
  return bytes;
}

int64_t TestPattern::expected(int64_t index, int64_t count) const {
  const int64_t block = index / count, i = index % count;
  switch (op_) {
    case TestOp::kAllReduce:
    case TestOp::kReduceScatter: {
      const int part = op_ == TestOp::kReduceScatter ? rank_ : 0;
      int64_t value = element(0, part, i);
      for (int r = 1; r < ranks_; ++r) {
        const int64_t other = element(r, part, i);
        value = reduce_ == ReduceOp::kMax && op_ == TestOp::kAllReduce ? std::max(value, other)
                                                                       : value + other;
      }
      return value;
    }
    case TestOp::kAllGather:
      return element(static_cast<int>(block), 0, i);
    case TestOp::kBroadcast:
      return element(root_, 0, i);
    case TestOp::kAllToAll:
      return element(static_cast<int>(block), rank_, i);
    case TestOp::kSendRecv:
      return element((rank_ + ranks_ - 1) % ranks_, 0, i);
  }
  return 0;
}

int64_t TestPattern::check(const std::vector<std::byte>& output, int64_t count,
                           int64_t* wrong) const {
  const int64_t size = dtype_size(dtype_);
  int64_t first = -1;
  std::byte want[8];
  for (int64_t i = 0; i < count * output_blocks(); ++i) {
    store(dtype_, expected(i, count), want);
    if (std::memcmp(want, output.data() + i * size, static_cast<size_t>(size)) != 0) {
      ++*wrong;
      first = first < 0 ? i : first;
    }
  }
  return first;
}

}  // namespace plait
