#include "plan/launch_rules.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/readers/trainer_flags.h"

namespace plait {
namespace {

constexpr std::string_view kAddressOptions[] = {"master_addr", "main_process_ip", "rdzv_endpoint"};

constexpr std::string_view kRankOptions[] = {"node_rank", "machine_rank"};

struct Told {
  std::string key;
  std::string value;
  SourceLine where;
};

// An option of the launcher, or a variable. Absent: not told, or not known.
std::optional<Told> find_told(const Launch& launch, const std::string& origin,
                              std::span<const std::string_view> options,
                              const char* variable_name) {
  TrainerFlags flags;
  flags.add(launch.launcher_arguments, origin);
  for (const std::string_view option : options) {
    if (const auto flag = flags.find(option)) {
      return flag->word.known()
                 ? std::optional<Told>({"--" + std::string(option), flag->word.text, flag->where})
                 : std::nullopt;
    }
  }
  const auto variable = launch.environment.find(variable_name);
  return variable != launch.environment.end() && variable->second.known()
             ? std::optional<Told>(
                   {variable_name, variable->second.text, {origin, variable->second.line}})
             : std::nullopt;
}

bool is_this_host(const std::string& address) {
  return address == "localhost" || address.starts_with("localhost:") ||
         address.starts_with("127.") || address == "::1" || address.starts_with("[::1]");
}

}  // namespace

std::vector<CheckProblem> check_launched(const Launch& launch, const std::string& origin,
                                         int64_t per_server, int64_t servers) {
  std::vector<CheckProblem> problems;
  const auto add = [&](std::string key, const std::string& value, std::string rule,
                       std::string suggestion, const char* source, SourceLine where) {
    CheckProblem problem;
    problem.key = std::move(key);
    problem.value = shortened(value, 80);
    problem.rule = std::move(rule);
    problem.suggestion = std::move(suggestion);
    problem.source = source;
    problem.where = std::move(where);
    problems.push_back(std::move(problem));
  };
  for (const char* name : {"ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto found = launch.environment.find(name);
    if (found == launch.environment.end() || !found->second.known() || found->second.text.empty()) {
      continue;
    }
    const std::string& list = found->second.text;
    const int64_t shown = count_listed(list);
    // deepspeed's own options win over the variable, and a container does not inherit it.
    const bool counts = launch.launcher != "deepspeed" && !launch.in_container &&
                        launch.kind != ProgramKind::kVllm && list != "-1";
    if (per_server > shown && counts) {
      add(name, list,
          fmt::format("shows {} device{}, but {} processes are started on each server: the ranks "
                      "from {} on have none",
                      shown, shown == 1 ? "" : "s", per_server, shown),
          fmt::format("{} devices in {}, or {} processes", per_server, name, shown),
          "a rank a device", {origin, found->second.line});
    }
  }
  const auto address = find_told(launch, origin, kAddressOptions, "MASTER_ADDR");
  const auto rank = find_told(launch, origin, kRankOptions, "NODE_RANK");
  // The first server itself may call itself so.
  const bool is_first = rank && rank->value == "0";
  if (address && servers > 1 && is_this_host(address->value) && !is_first &&
      launch.launcher != "deepspeed") {
    add(address->key, address->value,
        fmt::format("is each server's own address, but there are {} servers: they never meet",
                    servers),
        fmt::format("{} = the address of the first server", address->key),
        "PyTorch documentation, torch.distributed.run", address->where);
    // It may be a default that the first server alone takes.
    problems.back().severity = Severity::kWarning;
  }
  if (launch.stray_option) {
    add(launch.stray_option->text, "a command of its own",
        "begins a line behind the command: the shell runs it by itself, and the command goes "
        "without it and what follows",
        "a '\\' at the end of the line before", "POSIX shell", {origin, launch.stray_option->line});
  }
  return problems;
}

}  // namespace plait
