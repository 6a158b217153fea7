#include "serve/step_message.h"

#include <algorithm>

#include "base/error.h"

namespace plait {
namespace {

constexpr int32_t kNewSlot = 1;  // its table starts anew
constexpr int32_t kSample = 2;
constexpr int64_t kEntryWords = 5;

}  // namespace

void StepMessage::encode(StepKind kind) {
  words_.assign({static_cast<int32_t>(kHeader), static_cast<int32_t>(kind), 0, 0});
}

void StepMessage::encode_step(std::span<const ScheduledTokens> items, bool want_logits) {
  encode(StepKind::kStep);
  words_[2] = static_cast<int32_t>(items.size());
  words_[3] = want_logits ? 1 : 0;
  for (const ScheduledTokens& item : items) {
    Sequence& sequence = *item.sequence;
    const int32_t flags = (sequence.entered_slot ? 0 : kNewSlot) | (item.sample ? kSample : 0);
    const auto new_blocks = std::span<const int32_t>(sequence.blocks)
                                .subspan(static_cast<size_t>(sequence.sent_blocks));
    const auto tokens =
        std::span<const int32_t>(sequence.tokens)
            .subspan(static_cast<size_t>(item.begin), static_cast<size_t>(item.count));
    words_.insert(words_.end(),
                  {sequence.slot, flags, static_cast<int32_t>(item.begin),
                   static_cast<int32_t>(item.count), static_cast<int32_t>(new_blocks.size())});
    words_.insert(words_.end(), new_blocks.begin(), new_blocks.end());
    words_.insert(words_.end(), tokens.begin(), tokens.end());
    sequence.entered_slot = true;
    sequence.sent_blocks = std::ssize(sequence.blocks);
  }
  words_[0] = static_cast<int32_t>(words_.size());
}

StepDecoder::StepDecoder(const Limits& limits) : limits_(limits) {
  const int64_t blocks = limits.max_positions / kKvBlockTokens + 1;
  tables_.resize(static_cast<size_t>(limits.max_num_seqs));
  for (std::vector<int32_t>& table : tables_) {
    table.reserve(static_cast<size_t>(blocks));
  }
  for (std::vector<int32_t>* rows : {&tokens_, &positions_, &slots_}) {
    rows->reserve(static_cast<size_t>(limits.max_rows));
  }
  for (std::vector<int32_t>* runs : {&sampled_rows_, &run_slots_}) {
    runs->reserve(static_cast<size_t>(limits.max_num_seqs));
  }
  runs_.reserve(static_cast<size_t>(limits.max_num_seqs));
}

int64_t StepDecoder::max_words(const Limits& limits) {
  const int64_t blocks = limits.max_positions / kKvBlockTokens + 1;
  return StepMessage::kHeader + limits.max_num_seqs * (kEntryWords + blocks) + limits.max_rows;
}

DecoderBatch StepDecoder::decode(std::span<const int32_t> words) {
  tokens_.clear();
  positions_.clear();
  slots_.clear();
  runs_.clear();
  run_slots_.clear();
  sampled_rows_.clear();
  size_t at = StepMessage::kHeader;
  size_t stride = 1;
  for (int32_t entry = 0; entry < words[2]; ++entry) {
    const auto head = words.subspan(at, kEntryWords);
    const int32_t begin = head[2];
    const int32_t count = head[3];
    at += kEntryWords;
    std::vector<int32_t>& table = tables_[static_cast<size_t>(head[0])];
    if ((head[1] & kNewSlot) != 0) {
      table.clear();
    }
    const auto blocks = words.subspan(at, static_cast<size_t>(head[4]));
    table.insert(table.end(), blocks.begin(), blocks.end());
    at += blocks.size();
    runs_.push_back({.first_row = static_cast<int32_t>(tokens_.size()),
                     .rows = count,
                     .first_position = begin,
                     .table = static_cast<int32_t>(runs_.size())});
    run_slots_.push_back(head[0]);
    stride = std::max(stride, table.size());
    for (int32_t i = 0; i < count; ++i) {
      const int32_t position = begin + i;
      const int32_t block = table[static_cast<size_t>(position / kKvBlockTokens)];
      tokens_.push_back(words[at++]);
      positions_.push_back(position);
      slots_.push_back(block * static_cast<int32_t>(kKvBlockTokens) +
                       position % static_cast<int32_t>(kKvBlockTokens));
    }
    if ((head[1] & kSample) != 0) {
      sampled_rows_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
    }
  }
  CHECK_EQ(at, words.size());
  block_tables_.assign(stride * runs_.size(), 0);
  for (size_t run = 0; run < runs_.size(); ++run) {
    std::ranges::copy(tables_[static_cast<size_t>(run_slots_[run])],
                      block_tables_.begin() + static_cast<int64_t>(run * stride));
  }
  return {.tokens = tokens_,
          .positions = positions_,
          .slots = slots_,
          .runs = runs_,
          .block_tables = block_tables_,
          .table_stride = static_cast<int64_t>(stride),
          .sampled_rows = sampled_rows_,
          .want_logits = words[3] != 0};
}

}  // namespace plait
