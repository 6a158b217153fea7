#include "profile/totals.h"

#include <algorithm>

namespace plait {
namespace {

constexpr size_t kMostKinds = 20000;

template <typename Map>
typename Map::mapped_type* find_or_add(Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  if (found != map.end()) {
    return &found->second;
  }
  return map.size() < kMostKinds ? &map[key] : nullptr;
}

}  // namespace

void SplitSum::add(StepSplit split) {
  split.stage = std::max(split.stage, split.computing + split.exposed + split.free);
  if (count_++ == 0) {
    first_ = split;
    return;
  }
  sum(split);
}

void SplitSum::sum(const StepSplit& split) {
  total_.computing += split.computing;
  total_.exposed += split.exposed;
  total_.overlapped += split.overlapped;
  total_.free += split.free;
  total_.stage += split.stage;
  total_.bubble += split.bubble;
  total_.preparing += split.preparing;
  slowest_ = std::max(slowest_, split.stage);
}

void SplitSum::finish(RankProfile& rank) {
  if (count_ == 1) {
    sum(first_);
  }
  rank.steps = std::max<int64_t>(count_ - 1, count_ > 0 ? 1 : 0);
  const double n = std::max<double>(static_cast<double>(rank.steps), 1);
  rank.split = {total_.computing / n, total_.exposed / n, total_.overlapped / n, total_.free / n,
                total_.stage / n,     total_.bubble / n,  total_.preparing / n};
  rank.slowest_step_us = slowest_;
}

OperatorTotal* find_operator(RankProfile& rank, const std::string& type) {
  return find_or_add(rank.operators, type);
}

CollectiveTotal* find_collective(RankProfile& rank, const std::string& name,
                                 const std::string& group) {
  std::string kind = name;
  // Numbers that tell calls apart.
  while (!kind.empty() && (kind.back() == '_' || (kind.back() >= '0' && kind.back() <= '9'))) {
    kind.pop_back();
  }
  return find_or_add(rank.collectives, {kind.substr(0, 100), group.substr(0, 100)});
}

CollectiveTotal* find_collective(RankProfile& rank, const std::string& name_at_group) {
  const size_t at = name_at_group.find('@');
  return find_collective(rank, name_at_group.substr(0, at),
                         at == std::string::npos ? "" : name_at_group.substr(at + 1));
}

LinkTotal* find_link(RankProfile& rank, std::pair<int, int> ends) {
  return find_or_add(rank.links, ends);
}

void divide_collectives(RankProfile& rank, int64_t steps) {
  const double count = static_cast<double>(std::max<int64_t>(steps, 1));
  for (auto& [name, total] : rank.collectives) {
    total.elapse_ms /= count;
    total.transit_ms /= count;
    total.wait_ms /= count;
    total.size_mb /= count;
  }
}

}  // namespace plait
