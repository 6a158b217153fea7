#include "serve/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

bool runs_before(const Sequence* a, const Sequence* b) {
  return std::tuple(a->request.priority, a->id) < std::tuple(b->request.priority, b->id);
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options), blocks_(options.blocks) {
  CHECK_GE(options.max_num_batched_tokens, options.max_num_seqs);
  for (int64_t slot = options.max_num_seqs; slot-- > 0;) {
    free_slots_.push_back(static_cast<int>(slot));
  }
  step_.reserve(static_cast<size_t>(options.max_num_seqs));
}

void Scheduler::insert_sorted(std::vector<Sequence*>& list, Sequence* sequence) {
  list.insert(std::ranges::upper_bound(list, sequence, runs_before), sequence);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  CHECK_LE(blocks_.blocks_for(sequence->last_count), blocks_.num_blocks());
  insert_sorted(waiting_, sequence.get());
  const uint64_t id = sequence->id;
  sequences_.emplace(id, std::move(sequence));
}

Sequence* Scheduler::find(uint64_t id) {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

std::vector<uint64_t> Scheduler::ids() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, sequence] : sequences_) {
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

void Scheduler::free_slot(Sequence& sequence) {
  blocks_.release(sequence.blocks);
  sequence.blocks.clear();
  sequence.computed = 0;
  free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  sequence.entered_slot = false;
  sequence.sent_blocks = 0;
}

std::unique_ptr<Sequence> Scheduler::remove(uint64_t id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) {
    return nullptr;
  }
  std::unique_ptr<Sequence> sequence = std::move(found->second);
  sequences_.erase(found);
  if (sequence->slot >= 0) {
    free_slot(*sequence);
    std::erase(running_, sequence.get());
  } else {
    std::erase(waiting_, sequence.get());
  }
  std::erase_if(step_, [&](const auto& item) { return item.sequence == sequence.get(); });
  return sequence;
}

int64_t Scheduler::available() const {
  int64_t kept = 0;
  for (const Sequence* sequence : running_) {
    if (pinned(*sequence)) {
      kept +=
          blocks_.blocks_for(sequence->last_count) - static_cast<int64_t>(sequence->blocks.size());
    }
  }
  return blocks_.num_free() - kept;
}

Sequence* Scheduler::victim_for(const Sequence& sequence) const {
  for (size_t i = running_.size(); i-- > 0;) {
    if (!pinned(*running_[i])) {
      return runs_before(running_[i], &sequence) ? nullptr : running_[i];
    }
  }
  return nullptr;
}

void Scheduler::preempt(Sequence& sequence) {
  ++sequence.preemptions;
  ++counters_.preemptions;
  free_slot(sequence);
  std::erase(running_, &sequence);
  std::erase_if(step_, [&](const auto& item) { return item.sequence == &sequence; });
  insert_sorted(waiting_, &sequence);
}

// Blocks for the first `tokens` positions, at the cost of those that run after it. False: the
// sequence itself was preempted.
bool Scheduler::grow(Sequence& sequence, int64_t tokens) {
  while (static_cast<int64_t>(sequence.blocks.size()) < blocks_.blocks_for(tokens)) {
    if (pinned(sequence) || available() > 0) {
      const int32_t block = blocks_.allocate();
      CHECK_GE(block, 0);
      sequence.blocks.push_back(block);
      continue;
    }
    Sequence* victim = victim_for(sequence);
    // Without one, what is missing is kept for pinned sequences, which run before.
    victim = victim == nullptr ? &sequence : victim;
    preempt(*victim);
    if (victim == &sequence) {
      return false;
    }
  }
  return true;
}

void Scheduler::push(Sequence& sequence, int64_t count) {
  step_.push_back({.sequence = &sequence,
                   .begin = sequence.computed,
                   .count = count,
                   .sample = count == sequence.remaining()});
  rows_left_ -= count;
}

void Scheduler::schedule_decodes() {
  // Preemption takes from the end, so what stands before `i` stays.
  for (size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (!sequence.decodes()) {
      continue;
    }
    if (!grow(sequence, static_cast<int64_t>(sequence.tokens.size()))) {
      --i;  // it has left its place; pinned ones may follow
      continue;
    }
    push(sequence, 1);
  }
}

void Scheduler::schedule_prefills() {
  for (Sequence* sequence : running_) {
    const int64_t count = std::min({sequence->remaining(), rows_left_, prefill_rows_left_});
    if (!sequence->decodes() && count > 0) {
      push(*sequence, count);
      prefill_rows_left_ -= count;
    }
  }
}

bool Scheduler::try_admit(Sequence& sequence) {
  const std::span<const int32_t> reusable =
      std::span<const int32_t>(sequence.tokens).first(sequence.tokens.size() - 1);
  const BlockPool::PrefixMatch match = blocks_.probe_prefix(reusable);
  const int64_t matched = match.tokens / blocks_.block_tokens();
  const auto held = static_cast<int64_t>(sequence.tokens.size());
  // Room for its next token too, and for the next block of everyone else, or it would be the first
  // to go.
  const int64_t target =
      pinned(sequence) ? sequence.last_count : std::min(held + 1, sequence.last_count);
  const int64_t growth = pinned(sequence) ? 0 : num_running();
  const int64_t needed = blocks_.blocks_for(target) - matched + match.free_blocks;
  if (needed + growth > available() && !(running_.empty() && needed <= available())) {
    return false;
  }
  sequence.blocks = blocks_.match_prefix(reusable);
  sequence.computed = match.tokens;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  while (static_cast<int64_t>(sequence.blocks.size()) < blocks_.blocks_for(held)) {
    const int32_t block = blocks_.allocate();
    CHECK_GE(block, 0);
    sequence.blocks.push_back(block);
  }
  if (!sequence.started) {
    sequence.started = true;
    sequence.cached_prompt_tokens = match.tokens;
    counters_.prefix_queries += sequence.prompt_count;
    counters_.prefix_hits += match.tokens;
  }
  std::erase(waiting_, &sequence);
  insert_sorted(running_, &sequence);
  return true;
}

void Scheduler::admit(const Limits& limits) {
  const int64_t most = std::min(limits.max_running, options_.max_num_seqs);
  while (!waiting_.empty() && rows_left_ > 0 && prefill_rows_left_ > 0) {
    Sequence& next = *waiting_.front();
    const bool full = num_running() >= most;
    if (!full && try_admit(next)) {
      const int64_t count = std::min({next.remaining(), rows_left_, prefill_rows_left_});
      push(next, count);
      prefill_rows_left_ -= count;
      continue;
    }
    // A more urgent request takes the place of a less urgent one, never of an equal one.
    Sequence* victim = victim_for(next);
    if (victim == nullptr || victim->request.priority <= next.request.priority) {
      break;
    }
    preempt(*victim);
  }
}

const std::vector<ScheduledTokens>& Scheduler::schedule(const Limits& limits) {
  step_.clear();
  rows_left_ = options_.max_num_batched_tokens;
  schedule_decodes();
  prefill_rows_left_ =
      std::min(rows_left_, step_.empty() ? limits.prefill_alone : limits.prefill_beside_decode);
  schedule_prefills();
  admit(limits);
  return step_;
}

void Scheduler::advance() {
  const int64_t size = blocks_.block_tokens();
  for (const ScheduledTokens& item : step_) {
    Sequence& sequence = *item.sequence;
    const int64_t first = sequence.computed / size;
    sequence.computed += item.count;
    for (int64_t block = first; block < sequence.computed / size; ++block) {
      blocks_.enter(sequence.blocks, block,
                    std::span<const int32_t>(sequence.tokens)
                        .subspan(static_cast<size_t>(block * size), static_cast<size_t>(size)));
    }
  }
}

std::vector<uint64_t> Scheduler::expired(double now_s) const {
  std::vector<uint64_t> ids;
  for (const auto& [id, sequence] : sequences_) {
    const double age_s = now_s - sequence->submitted_s;
    const GenerationRequest& request = sequence->request;
    const bool late = request.deadline_s > 0 && age_s > request.deadline_s;
    const bool waited =
        !sequence->started && request.queue_limit_s > 0 && age_s > request.queue_limit_s;
    if (late || waited) {
      ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace plait
