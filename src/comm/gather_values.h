// Small values of every rank, through ProcessGroup::gather_bytes.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "comm/process_group.h"

namespace plait {

// Every rank's value, in rank order. Collective; every rank must pass the same type.
template <typename T>
std::vector<T> gather_values(ProcessGroup& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::string sent(sizeof(T), '\0');
  std::memcpy(sent.data(), &mine, sizeof(T));
  std::vector<T> values;
  for (const std::string& bytes : group.gather_bytes(sent)) {
    CHECK_EQ(bytes.size(), sizeof(T));
    std::memcpy(&values.emplace_back(), bytes.data(), sizeof(T));
  }
  return values;
}

}  // namespace plait
