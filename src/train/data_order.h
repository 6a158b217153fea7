// What decides which rows a step sees, as checkpoints record it. A run that went on with another
// value would train on other rows than one that did not stop, without a sign of it.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "checkpoint/manifest.h"

namespace plait {

struct DataOrder {
  int64_t global_batch_size = 0;
  int64_t seq_len = 0;
  uint64_t seed = 0;
  double val_fraction = 0;  // the other rows are trained on
  std::string data;         // as the user named it
  std::string content_id;   // of its rows: RowSource::content_id()
};

// The "data" object of CheckpointMeta::extra; the seed has a place of its own in CheckpointMeta.
Json data_order_json(const DataOrder& order);

// Errors: kInvalidArgument naming each key that differs, both values, and the flags to resume with;
// kCorruptData. `checkpoint` is the folder, for messages. What an older checkpoint did not record
// is not compared.
void check_data_order(const CheckpointMeta& saved, const DataOrder& order,
                      const std::string& checkpoint);

}  // namespace plait
