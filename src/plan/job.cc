#include "plan/job.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

constexpr std::array<std::pair<Stack, const char*>, 5> kStacks = {{
    {Stack::kPlait, "plait"},
    {Stack::kMegatron, "megatron"},
    {Stack::kMindSpeed, "mindspeed"},
    {Stack::kDeepSpeed, "deepspeed"},
    {Stack::kMindFormers, "mindformers"},
}};

}  // namespace

const char* stack_name(Stack stack) {
  return kStacks[static_cast<size_t>(stack)].second;
}

Stack parse_stack(const std::string& name) {
  for (const auto& [stack, known] : kStacks) {
    if (name == known) {
      return stack;
    }
  }
  throw_error(
      ErrorCode::kInvalidArgument,
      "stack={}: unknown; allowed are plait, megatron, mindspeed, deepspeed and mindformers", name);
}

bool runs_on_ascend(Stack stack) {
  return stack == Stack::kMindSpeed || stack == Stack::kMindFormers;
}

}  // namespace plait
