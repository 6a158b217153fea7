// Writes GGUF files for the tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plait {

class GgufBuilder {
 public:
  GgufBuilder& text(const std::string& key, const std::string& value) {
    return add(key, 8, sized(value));
  }
  GgufBuilder& integer(const std::string& key, uint32_t value) { return add(key, 4, raw(value)); }
  GgufBuilder& number(const std::string& key, float value) { return add(key, 6, raw(value)); }
  GgufBuilder& flag(const std::string& key, bool value) {
    return add(key, 7, std::string(1, value ? '\1' : '\0'));
  }
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = raw(uint32_t{8}) + raw(static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) {
      bytes += sized(value);
    }
    return add(key, 9, bytes);
  }
  GgufBuilder& integers(const std::string& key, const std::vector<int32_t>& values) {
    std::string bytes = raw(uint32_t{5}) + raw(static_cast<uint64_t>(values.size()));
    for (const int32_t value : values) {
      bytes += raw(value);
    }
    return add(key, 9, bytes);
  }
  // `shape` as HF has it.
  GgufBuilder& tensor(const std::string& name, const std::vector<int64_t>& shape, uint32_t type,
                      const std::string& data) {
    std::string info = sized(name) + raw(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) {
      info += raw(static_cast<uint64_t>(shape[i]));
    }
    data_.resize((data_.size() + 31) / 32 * 32);
    tensors_ += info + raw(type) + raw(static_cast<uint64_t>(data_.size()));
    data_ += data;
    ++num_tensors_;
    return *this;
  }
  std::string bytes(uint32_t version = 3) const {
    std::string header =
        "GGUF" + raw(version) + raw(num_tensors_) + raw(num_values_) + values_ + tensors_;
    header.resize((header.size() + 31) / 32 * 32);
    return header + data_;
  }

 private:
  template <typename T>
  static std::string raw(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static std::string sized(const std::string& value) {
    return raw(static_cast<uint64_t>(value.size())) + value;
  }
  GgufBuilder& add(const std::string& key, uint32_t type, const std::string& value) {
    values_ += sized(key) + raw(type) + value;
    ++num_values_;
    return *this;
  }

  std::string values_, tensors_, data_;
  uint64_t num_values_ = 0, num_tensors_ = 0;
};

}  // namespace plait
