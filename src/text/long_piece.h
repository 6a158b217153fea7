// The merge queue of a long piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace plait {

struct RankedMerge {
  int32_t rank = -1;  // < 0: the pair does not merge
  int32_t result = 0;
};

// A linked list of symbols and, for each rank that occurs, the places where it does. Ranks are
// taken in rising order and places from the left, so the work is O(n log n) for any text; a heap of
// single places would cost a cache miss and log n steps each.
class LongPiece {
 public:
  explicit LongPiece(std::vector<int32_t> ids) : ids_(std::move(ids)), links_(ids_.size()) {
    for (size_t i = 0; i < ids_.size(); ++i) {
      links_[i] = {static_cast<int32_t>(i) - 1, static_cast<int32_t>(i) + 1};
    }
  }

  // `lookup(left, right)` gives the merge of two ids.
  template <typename Lookup>
  void merge_all(const Lookup& lookup) {
    for (size_t i = 0; i + 1 < ids_.size(); ++i) {
      add_place(static_cast<int32_t>(i), lookup(ids_[i], ids_[i + 1]));
    }
    while (!ranks_.empty()) {
      const int32_t rank = ranks_.top();
      ranks_.pop();
      Bucket& bucket = buckets_.at(rank);
      bucket.queued = false;
      if (!std::ranges::is_sorted(bucket.places)) {
        std::ranges::sort(bucket.places);
      }
      merge_rank(rank, lookup);
    }
  }

  void append_to(std::vector<int32_t>& out) const {
    // The first symbol is never merged away.
    for (int32_t i = 0; i < end(); i = links_[index(i)].next) {
      out.push_back(ids_[index(i)]);
    }
  }

 private:
  struct Link {
    int32_t previous = 0, next = 0;
  };
  struct Bucket {
    std::vector<int32_t> places;  // of left symbols; stale ones are passed over
    bool queued = false;          // its rank is in ranks_
  };
  static constexpr int32_t kGone = -1;

  static size_t index(int32_t place) { return static_cast<size_t>(place); }
  int32_t end() const { return static_cast<int32_t>(ids_.size()); }

  void add_place(int32_t place, const RankedMerge& merge) {
    if (merge.rank < 0) {
      return;
    }
    Bucket& bucket = buckets_[merge.rank];
    bucket.places.push_back(place);
    if (!bucket.queued) {
      bucket.queued = true;
      ranks_.push(merge.rank);
    }
  }

  // All places of a rank, unless a merge brings up a pair of lower rank: that goes first.
  template <typename Lookup>
  void merge_rank(int32_t rank, const Lookup& lookup) {
    std::vector<int32_t> places = std::move(buckets_.at(rank).places);
    buckets_.at(rank).places.clear();
    for (size_t i = 0; i < places.size(); ++i) {
      if (!ranks_.empty() && ranks_.top() < rank) {
        for (; i < places.size(); ++i) {
          add_place(places[i], {rank, 0});
        }
        return;
      }
      merge_place(places[i], rank, lookup);
    }
  }

  template <typename Lookup>
  void merge_place(int32_t place, int32_t rank, const Lookup& lookup) {
    const int32_t right = links_[index(place)].next;
    if (ids_[index(place)] == kGone || right >= end()) {
      return;
    }
    const RankedMerge merge = lookup(ids_[index(place)], ids_[index(right)]);
    if (merge.rank != rank) {
      return;
    }
    ids_[index(place)] = merge.result;
    ids_[index(right)] = kGone;
    const int32_t next = links_[index(right)].next;
    links_[index(place)].next = next;
    if (next < end()) {
      links_[index(next)].previous = place;
      add_place(place, lookup(merge.result, ids_[index(next)]));
    }
    const int32_t previous = links_[index(place)].previous;
    if (previous >= 0) {
      add_place(previous, lookup(ids_[index(previous)], merge.result));
    }
  }

  std::vector<int32_t> ids_;
  std::vector<Link> links_;
  std::unordered_map<int32_t, Bucket> buckets_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ranks_;
};

}  // namespace plait
