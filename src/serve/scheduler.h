// Which tokens of which requests the next step computes: continuous batching on one replica.
// Running sequences that generate come first, one token each; then prompts in chunks, so that a
// long prompt never stalls them; then the queue, in order of (priority, arrival). When blocks run
// out, the sequence that is last in that order gives its blocks back and is computed again later
// (recomputation gives the same bits). Pure logic on the scheduler's rank; time is passed in; not
// thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "serve/block_pool.h"
#include "serve/request.h"

namespace plait {

struct Sequence {
  uint64_t id = 0;  // ascending in order of arrival
  GenerationRequest request;
  UpdateSink sink;
  uint64_t seed = 0;
  double submitted_s = 0;

  std::vector<int32_t> tokens;       // prompt, then what was generated
  int64_t prompt_count = 0;          // of tokens
  int64_t last_count = 0;            // most tokens it can grow to
  std::vector<int32_t> stop_tokens;  // EOS and the request's own, as sampling sees them

  // Of the scheduler.
  int64_t computed = 0;  // tokens whose K and V are in the blocks
  std::vector<int32_t> blocks;
  int slot = -1;  // while running: a number below max_num_seqs that no other sequence has
  int preemptions = 0;
  double queue_s = -1;        // from submission to the first step; < 0: not yet
  bool started = false;       // has run
  bool entered_slot = false;  // the workers know it
  int64_t sent_blocks = 0;    // so many of `blocks` do the workers know
  int64_t cached_prompt_tokens = 0;

  int64_t generated_count() const { return static_cast<int64_t>(tokens.size()) - prompt_count; }
  int64_t remaining() const { return static_cast<int64_t>(tokens.size()) - computed; }
  // True when the next step yields a token from one row.
  bool decodes() const { return remaining() == 1 && generated_count() > 0; }
  std::span<const int32_t> prompt() const {
    return std::span(tokens).first(static_cast<size_t>(prompt_count));
  }
  std::span<const int32_t> generated() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_count));
  }
};

// Tokens [begin, begin + count) of a sequence. `sample`: the last one's logits give a new token.
struct ScheduledTokens {
  Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
  bool sample = false;
};

struct SchedulerOptions {
  BlockPool::Options blocks;
  int64_t max_num_seqs = 64;
  int64_t max_num_batched_tokens = 512;  // at least max_num_seqs
};

struct SchedulerCounters {
  int64_t preemptions = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens
};

class Scheduler {
 public:
  // A sequence preempted so often is from then on admitted only with room for its last token, which
  // is kept for it: it is not preempted again.
  static constexpr int kMostPreemptions = 2;

  explicit Scheduler(const SchedulerOptions& options);

  // Requires: last_count tokens fit the blocks when the sequence runs alone.
  void add(std::unique_ptr<Sequence> sequence);
  Sequence* find(uint64_t id);
  // Takes a sequence out, whatever it does; its blocks are free at once. Null if unknown.
  std::unique_ptr<Sequence> remove(uint64_t id);

  struct Limits {
    int64_t max_running = 0;  // sequences; those that run already go on
    // Rows for prompts in a step in which sequences generate, and in one in which none does.
    int64_t prefill_beside_decode = 0;
    int64_t prefill_alone = std::numeric_limits<int64_t>::max();
  };
  // The next step; empty only when no sequence is there. Valid until the next call of anything.
  const std::vector<ScheduledTokens>& schedule(const Limits& limits);
  // The scheduled tokens have been computed. Call before appending tokens.
  void advance();

  // Sequences that are past their deadline or waited too long for their first step.
  std::vector<uint64_t> expired(double now_s) const;

  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  bool idle() const { return sequences_.empty(); }
  std::vector<uint64_t> ids() const;
  const BlockPool& blocks() const { return blocks_; }
  const SchedulerCounters& counters() const { return counters_; }

 private:
  // Blocks that may be taken without touching those kept for pinned sequences.
  int64_t available() const;
  bool pinned(const Sequence& sequence) const { return sequence.preemptions >= kMostPreemptions; }
  bool grow(Sequence& sequence, int64_t tokens);
  // The last running sequence that may be preempted, not before `sequence`; null if none.
  Sequence* victim_for(const Sequence& sequence) const;
  void preempt(Sequence& sequence);
  void schedule_decodes();
  void schedule_prefills();
  bool try_admit(Sequence& sequence);
  void admit(const Limits& limits);
  void push(Sequence& sequence, int64_t count);
  void insert_sorted(std::vector<Sequence*>& list, Sequence* sequence);
  void free_slot(Sequence& sequence);

  SchedulerOptions options_;
  BlockPool blocks_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_, waiting_;  // by (priority, id)
  std::vector<int> free_slots_;
  std::vector<ScheduledTokens> step_;
  int64_t rows_left_ = 0;          // of the step being made
  int64_t prefill_rows_left_ = 0;  // likewise, for prompts
  SchedulerCounters counters_;
};

}  // namespace plait
