#include "serve/block_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace plait {
namespace {

uint64_t content_key(uint64_t parent_id, std::span<const int32_t> tokens) {
  uint64_t key = random_bits(parent_id, 0, 0);
  for (const int32_t token : tokens) {
    key = (key ^ static_cast<uint32_t>(token)) * 0x100000001b3ULL;
    key ^= key >> 29;
  }
  return key;
}

}  // namespace

BlockPool::BlockPool(const Options& options) : options_(options) {
  CHECK_GT(options.block_tokens, int64_t{0});
  blocks_.resize(static_cast<size_t>(options.num_blocks));
  for (int32_t i = 0; i < options.num_blocks; ++i) {
    Block& block = at(i);
    block.free_place = free_order_.insert(free_order_.end(), i);
    block.tokens.reserve(static_cast<size_t>(options.block_tokens));
  }
  table_.reserve(static_cast<size_t>(options.num_blocks));
}

int32_t BlockPool::find(uint64_t parent_id, std::span<const int32_t> tokens) const {
  const auto [begin, end] = table_.equal_range(content_key(parent_id, tokens));
  for (auto entry = begin; entry != end; ++entry) {
    const Block& block = blocks_[static_cast<size_t>(entry->second)];
    if (block.parent_id == parent_id && std::ranges::equal(block.tokens, tokens)) {
      return entry->second;
    }
  }
  return -1;
}

template <typename Visit>
void BlockPool::visit_prefix(std::span<const int32_t> tokens, const Visit& visit) const {
  if (!options_.prefix_reuse) {
    return;
  }
  const auto size = static_cast<size_t>(options_.block_tokens);
  uint64_t parent_id = 0;
  for (size_t begin = 0; begin + size <= tokens.size(); begin += size) {
    const int32_t index = find(parent_id, tokens.subspan(begin, size));
    if (index < 0) {
      return;
    }
    visit(index);
    parent_id = blocks_[static_cast<size_t>(index)].chain_id;
  }
}

std::vector<int32_t> BlockPool::match_prefix(std::span<const int32_t> tokens) {
  std::vector<int32_t> matched;
  visit_prefix(tokens, [&](int32_t index) {
    Block& block = at(index);
    if (block.references++ == 0) {
      spare_nodes_.splice(spare_nodes_.begin(), free_order_, block.free_place);
    }
    matched.push_back(index);
  });
  return matched;
}

BlockPool::PrefixMatch BlockPool::probe_prefix(std::span<const int32_t> tokens) const {
  PrefixMatch match;
  visit_prefix(tokens, [&](int32_t index) {
    match.tokens += options_.block_tokens;
    match.free_blocks += blocks_[static_cast<size_t>(index)].references == 0 ? 1 : 0;
  });
  return match;
}

void BlockPool::forget(Block& block, int32_t index) {
  if (block.in_table) {
    const auto [begin, end] = table_.equal_range(block.key);
    const auto entry =
        std::find_if(begin, end, [index](const auto& item) { return item.second == index; });
    CHECK(entry != end);
    table_.erase(entry);
  }
  block.in_table = false;
  block.chain_id = 0;
  block.tokens.clear();
}

int32_t BlockPool::allocate() {
  if (free_order_.empty()) {
    return -1;
  }
  const int32_t index = free_order_.front();
  Block& block = at(index);
  spare_nodes_.splice(spare_nodes_.begin(), free_order_, block.free_place);
  forget(block, index);
  block.references = 1;
  return index;
}

void BlockPool::release(std::span<const int32_t> blocks) {
  for (size_t i = blocks.size(); i-- > 0;) {
    const int32_t index = blocks[i];
    Block& block = at(index);
    CHECK_GT(block.references, 0);
    if (--block.references > 0) {
      continue;
    }
    // What cannot be found is taken before anything that can.
    const auto place = block.in_table ? free_order_.end() : free_order_.begin();
    CHECK(!spare_nodes_.empty());
    free_order_.splice(place, spare_nodes_, spare_nodes_.begin());
    block.free_place = block.in_table ? std::prev(free_order_.end()) : free_order_.begin();
    *block.free_place = index;
  }
}

void BlockPool::enter(std::span<const int32_t> blocks, int64_t index,
                      std::span<const int32_t> tokens) {
  if (!options_.prefix_reuse) {
    return;
  }
  CHECK_EQ(static_cast<int64_t>(tokens.size()), options_.block_tokens);
  const int32_t number = blocks[static_cast<size_t>(index)];
  Block& block = at(number);
  if (block.chain_id != 0) {
    return;
  }
  const uint64_t parent_id = index == 0 ? 0 : at(blocks[static_cast<size_t>(index - 1)]).chain_id;
  CHECK(index == 0 || parent_id != 0);
  const int32_t existing = find(parent_id, tokens);
  if (existing >= 0) {
    // Two sequences computed the same block side by side: what follows joins the first one's chain.
    block.chain_id = at(existing).chain_id;
    return;
  }
  block.chain_id = next_chain_id_++;
  block.parent_id = parent_id;
  block.tokens.assign(tokens.begin(), tokens.end());
  block.key = content_key(parent_id, tokens);
  block.in_table = true;
  table_.emplace(block.key, number);
}

}  // namespace plait
