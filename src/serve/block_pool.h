// Which KV blocks are free, which hold whose tokens, and which can be used again: pure bookkeeping
// on block numbers, on the scheduler's rank alone. A block holds `block_tokens` consecutive
// positions of one sequence. Blocks are reference-counted; a full block whose tokens are known is
// entered under (the block before it, its tokens), so that a later sequence with the same beginning
// finds it. Blocks that nobody refers to stay findable until they are taken, least recently used
// first. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace plait {

class BlockPool {
 public:
  struct Options {
    int64_t num_blocks = 0;
    int64_t block_tokens = 0;
    bool prefix_reuse = true;
  };
  explicit BlockPool(const Options& options);

  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }
  // Blocks that nobody refers to, whether findable or not.
  int64_t num_free() const { return static_cast<int64_t>(free_order_.size()); }
  int64_t block_tokens() const { return options_.block_tokens; }
  int64_t blocks_for(int64_t tokens) const {
    return (tokens + options_.block_tokens - 1) / options_.block_tokens;
  }

  // The longest run of entered blocks from position 0 that matches full blocks of `tokens`; takes a
  // reference on each. The caller leaves out at least the last token of a prompt: something must be
  // computed.
  std::vector<int32_t> match_prefix(std::span<const int32_t> tokens);
  // How many tokens match_prefix would find, and how many of the blocks are free now.
  struct PrefixMatch {
    int64_t tokens = 0;
    int64_t free_blocks = 0;
  };
  PrefixMatch probe_prefix(std::span<const int32_t> tokens) const;

  // A block with one reference, or -1 when all are in use. Its old content is forgotten.
  int32_t allocate();
  // Drops one reference from each; the last blocks are the first to be taken again, because a
  // beginning is worth more than what follows it.
  void release(std::span<const int32_t> blocks);
  // Enters blocks[index], which now holds exactly these tokens of a sequence whose blocks are
  // `blocks`; blocks before `index` have been entered before. Idempotent.
  void enter(std::span<const int32_t> blocks, int64_t index, std::span<const int32_t> tokens);

 private:
  struct Block {
    int32_t references = 0;
    // Names the beginning that ends with this block: of the block that stands in the table, for
    // private copies too. 0: not entered.
    uint64_t chain_id = 0;
    bool in_table = false;
    uint64_t key = 0;
    uint64_t parent_id = 0;
    std::vector<int32_t> tokens;
    std::list<int32_t>::iterator free_place;  // valid while references == 0
  };
  Block& at(int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  // The entered block with this content after parent_id, or -1.
  int32_t find(uint64_t parent_id, std::span<const int32_t> tokens) const;
  // visit(block) for each of the longest run that match_prefix describes.
  template <typename Visit>
  void visit_prefix(std::span<const int32_t> tokens, const Visit& visit) const;
  void forget(Block& block, int32_t index);

  Options options_;
  std::vector<Block> blocks_;
  std::list<int32_t> free_order_;   // the front is taken first
  std::list<int32_t> spare_nodes_;  // of blocks in use: nothing is allocated in a step
  std::unordered_multimap<uint64_t, int32_t> table_;  // key: hash of (parent id, tokens)
  uint64_t next_chain_id_ = 1;
};

}  // namespace plait
