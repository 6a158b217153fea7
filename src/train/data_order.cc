#include "train/data_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_full.h"
#include "base/json_reader.h"

namespace plait {
namespace {

// What differs, and the flags that set it as it was.
struct Differences {
  std::string values;
  std::string flags;

  void add(const std::string& value, const std::string& flag) {
    values += (values.empty() ? "" : " and ") + value;
    flags += (flags.empty() ? "" : " ") + flag;
  }

  template <typename Value>
  void compare(const char* key, const Value& saved, const Value& mine) {
    if (saved != mine) {
      std::string flag = std::string("--") + key;
      std::ranges::replace(flag, '_', '-');
      add(fmt::format("{}={}, not {}", key, saved, mine), fmt::format("{} {}", flag, saved));
    }
  }
};

}  // namespace

Json data_order_json(const DataOrder& order) {
  return {{"global_batch_size", order.global_batch_size},
          {"seq_len", order.seq_len},
          {"val_fraction", order.val_fraction},
          {"path", order.data},
          {"content", order.content_id}};
}

void check_data_order(const CheckpointMeta& saved, const DataOrder& order,
                      const std::string& checkpoint) {
  Differences found;
  found.compare("seed", saved.seed, order.seed);
  const Json extra = parse_json(saved.extra, checkpoint);
  if (extra.is_object() && extra.contains("data")) {
    const JsonReader data(extra.at("data"), checkpoint + ": extra.data");
    found.compare("global_batch_size", data.required_integer("global_batch_size"),
                  order.global_batch_size);
    found.compare("seq_len", data.required_integer("seq_len"), order.seq_len);
    found.compare("val_fraction", data.required_number("val_fraction"), order.val_fraction);
    const std::string path = data.required_text("path");
    const std::string content = data.required_text("content");
    if (content != order.content_id) {
      found.add(
          fmt::format("data={} ({}), not {} ({})", path, content, order.data, order.content_id),
          fmt::format("--data {}{}", path, path == order.data ? " as it was" : ""));
    }
  }
  if (!found.values.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "resume: the checkpoint {} was trained with {}; the next steps would see other "
                "rows than a run that did not stop; resume with {}, or start a new run from these "
                "weights (plait checkpoint export, then --model and --finetune with another --out)",
                checkpoint, found.values, found.flags);
  }
}

}  // namespace plait
