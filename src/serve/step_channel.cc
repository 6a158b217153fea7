#include "serve/step_channel.h"

#include <algorithm>

#include "base/error.h"

namespace plait {
namespace {

constexpr int64_t kWord = sizeof(int32_t);

}  // namespace

StepChannel::StepChannel(ProcessGroup& group, Device& device, const Options& options)
    : group_(group),
      device_(device),
      buffer_(device, {std::max(options.max_words, kFirstWords)}, DType::kI32,
              MemoryCategory::kComm) {
  words_.reserve(static_cast<size_t>(buffer_.count()));
}

void StepChannel::send(std::span<const int32_t> words) {
  if (group_.size() == 1) {
    return;
  }
  const int64_t count = std::ssize(words);
  CHECK_LE(count, buffer_.count());
  device_.stream().copy_to_device(buffer_.ptr(), words.data(), count * kWord);
  group_.broadcast({.buffer = buffer_.ptr(), .bytes = kFirstWords * kWord, .root = 0}).wait();
  if (count > kFirstWords) {
    group_
        .broadcast({.buffer = buffer_.ptr() + kFirstWords * kWord,
                    .bytes = (count - kFirstWords) * kWord,
                    .root = 0})
        .wait();
  }
}

std::span<const int32_t> StepChannel::receive() {
  Stream& stream = device_.stream();
  group_.broadcast({.buffer = buffer_.ptr(), .bytes = kFirstWords * kWord, .root = 0}).wait();
  words_.resize(kFirstWords);
  stream.copy_to_host(words_.data(), buffer_.ptr(), kFirstWords * kWord);
  stream.synchronize();
  const int64_t count = words_.front();
  words_.resize(static_cast<size_t>(count));
  if (count > kFirstWords) {
    const DevicePtr rest = buffer_.ptr() + kFirstWords * kWord;
    const int64_t bytes = (count - kFirstWords) * kWord;
    group_.broadcast({.buffer = rest, .bytes = bytes, .root = 0}).wait();
    stream.copy_to_host(&words_[kFirstWords], rest, bytes);
    stream.synchronize();
  }
  return words_;
}

}  // namespace plait
