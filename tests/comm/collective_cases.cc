#include "collective_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "base/dtype.h"

namespace plait::test {
namespace {

// Small integers: exact in every dtype, and so is their sum over up to 8 ranks.
int64_t value(int rank, int64_t i) {
  return (rank + 1) * ((i % 5) + 1) % 17;
}

void put_float(std::byte* at, DType dtype, float f) {
  const BFloat16 b = to_bf16(f);
  const Float16 h = to_f16(f);
  dtype == DType::kF32    ? std::memcpy(at, &f, 4)
  : dtype == DType::kBF16 ? std::memcpy(at, &b, 2)
                          : std::memcpy(at, &h, 2);
}

void put(std::byte* at, DType dtype, int64_t v) {
  if (dtype == DType::kI64) {
    std::memcpy(at, &v, 8);
  } else if (dtype == DType::kI32) {
    const auto x = static_cast<int32_t>(v);
    std::memcpy(at, &x, 4);
  } else {
    put_float(at, dtype, static_cast<float>(v));
  }
}

std::vector<std::byte> encode(DType dtype, const std::vector<int64_t>& values) {
  const int64_t size = dtype_size(dtype);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    put(bytes.data() + static_cast<int64_t>(i) * size, dtype, values[i]);
  }
  return bytes;
}

// Values of ranks [first, first + n) after one another.
std::vector<int64_t> values_of(int rank, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = value(rank, i);
  }
  return values;
}

class OnDevice {
 public:
  OnDevice(Device& device, int64_t bytes)
      : device_(device), bytes_(bytes), buffer_(device, bytes + 1, MemoryCategory::kComm) {}
  OnDevice(Device& device, const std::vector<std::byte>& content)
      : OnDevice(device, static_cast<int64_t>(content.size())) {
    device_.stream().copy_to_device(ptr(), content.data(), bytes_);
  }
  DevicePtr ptr() const { return buffer_.ptr(); }
  std::vector<std::byte> read() const {
    std::vector<std::byte> content(static_cast<size_t>(bytes_));
    device_.stream().copy_to_host(content.data(), ptr(), bytes_);
    device_.stream().synchronize();
    return content;
  }

 private:
  Device& device_;
  int64_t bytes_;
  Buffer buffer_;
};

void expect_equal(const ProcessGroup& group, const char* what, const CollectiveCase& c,
                  const std::vector<std::byte>& got, const std::vector<std::byte>& want) {
  EXPECT_TRUE(got == want) << what << " on rank " << group.rank() << " of " << group.size()
                           << ", count " << c.count << ", " << dtype_name(c.dtype)
                           << (c.async ? ", async" : "");
}

void check_reduce(ProcessGroup& group, Device& device, const CollectiveCase& c, ReduceOp op) {
  OnDevice buffer(device, encode(c.dtype, values_of(group.rank(), c.count)));
  group.all_reduce({buffer.ptr(), c.count, c.dtype, op, c.async}).wait();
  std::vector<int64_t> want(static_cast<size_t>(c.count), 0);
  for (int rank = 0; rank < group.size(); ++rank) {
    for (int64_t i = 0; i < c.count; ++i) {
      int64_t& w = want[static_cast<size_t>(i)];
      w = op == ReduceOp::kSum ? w + value(rank, i) : std::max(w, value(rank, i));
    }
  }
  expect_equal(group, op == ReduceOp::kSum ? "all_reduce" : "all_reduce(max)", c, buffer.read(),
               encode(c.dtype, want));
}

}  // namespace

void check_all_reduce(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  check_reduce(group, device, c, ReduceOp::kSum);
}

void check_all_reduce_max(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  check_reduce(group, device, c, ReduceOp::kMax);
}

void check_reduce_scatter(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  const int n = group.size();
  OnDevice input(device, encode(c.dtype, values_of(group.rank(), n * c.count)));
  std::vector<int64_t> want(static_cast<size_t>(c.count), 0);
  for (int rank = 0; rank < n; ++rank) {
    for (int64_t i = 0; i < c.count; ++i) {
      want[static_cast<size_t>(i)] += value(rank, group.rank() * c.count + i);
    }
  }
  OnDevice output(device, c.count * dtype_size(c.dtype));
  group.reduce_scatter({input.ptr(), output.ptr(), c.count, c.dtype, c.async}).wait();
  expect_equal(group, "reduce_scatter", c, output.read(), encode(c.dtype, want));
  // In place: the output is the rank's own part of the input.
  const DevicePtr own = input.ptr() + group.rank() * c.count * dtype_size(c.dtype);
  group.reduce_scatter({input.ptr(), own, c.count, c.dtype, c.async}).wait();
  const std::vector<std::byte> all = input.read();
  const auto begin = all.begin() + group.rank() * c.count * dtype_size(c.dtype);
  expect_equal(group, "reduce_scatter in place", c,
               std::vector<std::byte>(begin, begin + c.count * dtype_size(c.dtype)),
               encode(c.dtype, want));
}

void check_all_gather(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  const int64_t bytes = c.count * dtype_size(c.dtype);
  OnDevice input(device, encode(c.dtype, values_of(group.rank(), c.count)));
  OnDevice output(device, bytes * group.size());
  group.all_gather({input.ptr(), output.ptr(), c.count, c.dtype, c.async}).wait();
  std::vector<std::byte> want;
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::vector<std::byte> part = encode(c.dtype, values_of(rank, c.count));
    want.insert(want.end(), part.begin(), part.end());
  }
  expect_equal(group, "all_gather", c, output.read(), want);
  OnDevice in_place(device, bytes * group.size());
  const DevicePtr own = in_place.ptr() + group.rank() * bytes;
  device.stream().copy(own, input.ptr(), bytes);
  group.all_gather({own, in_place.ptr(), c.count, c.dtype, c.async}).wait();
  expect_equal(group, "all_gather in place", c, in_place.read(), want);
}

void check_broadcast(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  for (int root = 0; root < group.size(); ++root) {
    OnDevice buffer(device, encode(c.dtype, values_of(group.rank(), c.count)));
    group.broadcast({buffer.ptr(), c.count * dtype_size(c.dtype), root, c.async}).wait();
    expect_equal(group, "broadcast", c, buffer.read(), encode(c.dtype, values_of(root, c.count)));
  }
}

void check_all_to_all(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  const int n = group.size();
  OnDevice input(device, encode(c.dtype, values_of(group.rank(), n * c.count)));
  OnDevice output(device, n * c.count * dtype_size(c.dtype));
  group.all_to_all({input.ptr(), output.ptr(), c.count * dtype_size(c.dtype), c.async}).wait();
  std::vector<int64_t> want;
  for (int rank = 0; rank < n; ++rank) {
    for (int64_t i = 0; i < c.count; ++i) {
      want.push_back(value(rank, group.rank() * c.count + i));
    }
  }
  expect_equal(group, "all_to_all", c, output.read(), encode(c.dtype, want));
}

void check_gather_bytes(ProcessGroup& group) {
  const auto text = [](int rank) {
    return std::string(static_cast<size_t>(rank) * 1000, static_cast<char>('a' + rank));
  };
  const std::vector<std::string> all = group.gather_bytes(text(group.rank()));
  ASSERT_EQ(all.size(), static_cast<size_t>(group.size()));
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_TRUE(all[static_cast<size_t>(rank)] == text(rank)) << "gather_bytes of rank " << rank;
  }
}

void check_exchange(ProcessGroup& group, Device& device, const CollectiveCase& c) {
  const int64_t bytes = c.count * dtype_size(c.dtype);
  std::vector<std::unique_ptr<OnDevice>> sent;
  std::vector<std::unique_ptr<OnDevice>> received;
  std::vector<Work> sends;
  std::vector<Work> recvs;
  for (int round = 0; round < 2; ++round) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) {
        continue;
      }
      const std::vector<int64_t> mine = values_of(group.rank() + peer + round, c.count);
      sent.push_back(std::make_unique<OnDevice>(device, encode(c.dtype, mine)));
      sends.push_back(group.send({sent.back()->ptr(), bytes, peer, true}));
    }
  }
  for (int round = 0; round < 2; ++round) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) {
        continue;
      }
      received.push_back(std::make_unique<OnDevice>(device, bytes));
      recvs.push_back(group.recv({received.back()->ptr(), bytes, peer, c.async}));
    }
  }
  for (Work& work : recvs) {
    work.wait();
  }
  for (Work& work : sends) {
    work.wait();
  }
  size_t next = 0;
  for (int round = 0; round < 2; ++round) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer != group.rank()) {
        const std::vector<int64_t> theirs = values_of(group.rank() + peer + round, c.count);
        expect_equal(group, "send/recv", c, received[next++]->read(), encode(c.dtype, theirs));
      }
    }
  }
}

void check_mixed_order(ProcessGroup& group, Device& device) {
  // b = sum; a = gather of b; a second sum of b: each result depends on the one before.
  const int n = group.size();
  const int64_t count = 3000;
  OnDevice b(device, encode(DType::kI64, std::vector<int64_t>(count, 1)));
  Work first = group.all_reduce({b.ptr(), count, DType::kI64, ReduceOp::kSum, true});
  OnDevice c(device, encode(DType::kI64, std::vector<int64_t>(count, 2)));
  Work second = group.all_reduce({c.ptr(), count, DType::kI64, ReduceOp::kSum, true});
  // A blocking operation of the same group comes after both: it sees the reduced b.
  OnDevice gathered(device, n * count * 8);
  group.all_gather({b.ptr(), gathered.ptr(), count, DType::kI64, false});
  EXPECT_TRUE(first.done());
  first.wait();
  first.wait();
  EXPECT_TRUE(gathered.read() ==
              encode(DType::kI64, std::vector<int64_t>(static_cast<size_t>(n * count), n)));
  second.wait();
  group.all_reduce({b.ptr(), count, DType::kI64, ReduceOp::kSum, false});
  EXPECT_TRUE(b.read() == encode(DType::kI64, std::vector<int64_t>(count, n * n)));
  EXPECT_TRUE(c.read() == encode(DType::kI64, std::vector<int64_t>(count, 2 * n)));
}

float rounded_to(float x, DType dtype) {
  return dtype == DType::kF32    ? x
         : dtype == DType::kBF16 ? to_float(to_bf16(x))
                                 : to_float(to_f16(x));
}

void check_order_of_addition(ProcessGroup& group, Device& device) {
  const auto contribution = [](int rank, int64_t i) {
    return std::ldexp(1.0F + static_cast<float>((i * 7 + rank * 13) % 97) / 97.0F,
                      static_cast<int>((i + rank * 5) % 23)) *
           ((i + rank) % 2 == 0 ? 1.0F : -1.0F);
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t count : {int64_t{5}, int64_t{500}, int64_t{50000}}) {
      std::vector<std::byte> mine(static_cast<size_t>(count * dtype_size(dtype)));
      std::vector<std::byte> want(mine.size());
      for (int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int rank = 0; rank < group.size(); ++rank) {
          const float x = contribution(rank, i);
          const float rounded = rounded_to(x, dtype);
          sum = rank == 0 ? rounded : sum + rounded;
          if (rank == group.rank()) {
            put_float(mine.data() + i * dtype_size(dtype), dtype, x);
          }
        }
        put_float(want.data() + i * dtype_size(dtype), dtype, sum);
      }
      OnDevice buffer(device, mine);
      group.all_reduce({buffer.ptr(), count, dtype, ReduceOp::kSum, false});
      expect_equal(group, "order of addition", {count, dtype, false}, buffer.read(), want);
    }
  }
}

void check_everything(ProcessGroup& group, Device& device) {
  for (const bool async : {false, true}) {
    for (const int64_t count : {0, 1, 7, 1000, group.size() <= 3 ? 100000 : 20000}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64}) {
        if (count > 1000 && dtype != DType::kF32 && dtype != DType::kBF16) {
          continue;
        }
        const CollectiveCase c{count, dtype, async};
        check_all_reduce(group, device, c);
        check_all_reduce_max(group, device, c);
        check_reduce_scatter(group, device, c);
        check_all_gather(group, device, c);
        check_all_to_all(group, device, c);
        check_exchange(group, device, c);
      }
      check_broadcast(group, device, {count, DType::kI32, async});
    }
  }
  check_gather_bytes(group);
  check_mixed_order(group, device);
  check_order_of_addition(group, device);
  group.barrier();
}

}  // namespace plait::test
