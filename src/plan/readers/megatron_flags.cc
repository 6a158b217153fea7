#include "plan/readers/megatron_flags.h"

#include <utility>

#include "base/text.h"

namespace plait {
namespace {

void add_names(FlagTable& table, std::string_view names, const FlagSpec& spec) {
  for (std::string& name : split(names, ' ')) {
    if (!name.empty()) {
      table.emplace(std::move(name), spec);
    }
  }
}

FlagTable make_megatron_table() {
  FlagTable table;
  const FlagNames megatron = megatron_flag_names();
  add_names(table, megatron.none, {Arity::kNone, false});
  add_names(table, megatron.one, {Arity::kOne, false});
  add_names(table, megatron.many, {Arity::kMany, false});
  const FlagNames mindspeed = mindspeed_flag_names();
  add_names(table, mindspeed.none, {Arity::kNone, true});
  add_names(table, mindspeed.one, {Arity::kOne, true});
  add_names(table, mindspeed.many, {Arity::kMany, true});
  table.emplace("deepspeed", FlagSpec{Arity::kNone, false});
  table.emplace("deepspeed-config", FlagSpec{Arity::kOne, false});
  // Megatron-DeepSpeed.
  table.emplace("pp-partition-method", FlagSpec{Arity::kOne, false});
  // Old launchers hand these on to the program.
  table.emplace("local-rank", FlagSpec{Arity::kOne, false});
  return table;
}

}  // namespace

const FlagTable& megatron_flags() {
  static const FlagTable table = make_megatron_table();
  return table;
}

}  // namespace plait
