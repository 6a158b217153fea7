#include "plan/readers/launch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plan/readers/flag_set.h"
#include "plan/readers/launch_words.h"
#include "plan/readers/read_job.h"
#include "plan/readers/trainer_flags.h"

namespace plait {
namespace {

constexpr int kStarted = 2;  // the highest rank: a launcher starts it, or it needs none

// How likely a command is the one that is meant.
int rank_of(const Launch& launch) {
  static constexpr std::string_view kSide[] = {"preprocess", "convert", "tokeniz",
                                               "download",   "prepare", "benchmark"};
  for (const std::string_view word : kSide) {
    if (launch.program.find(word) != std::string::npos) {
      return 0;
    }
  }
  const bool launched = !launch.launcher.empty() || launch.kind != ProgramKind::kPython;
  return launched ? kStarted : 1;
}

// Processes that neither the launcher nor its options tell: variables of Slurm, ms-swift and
// LLaMA-Factory, and flags of programs that Ray places.
void read_environment(Launch& launch, const std::string& origin) {
  const auto value = [&](const char* name) -> int64_t {
    const auto found = launch.environment.find(name);
    if (found == launch.environment.end()) {
      return 0;
    }
    if (!found->second.known()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: {} is not known: {}",
                  SourceLine{origin, found->second.line}.text(), name, found->second.unknown);
    }
    launch.world_where = {origin, found->second.line};
    const int64_t number = parse_integer(found->second.text).value_or(0);
    if (number < 1 || number > kMaxProcesses) {
      throw_error(ErrorCode::kInvalidArgument, "{}: {} is {}, but must be 1 to {}",
                  launch.world_where.text(), name, found->second.text.substr(0, 40), kMaxProcesses);
    }
    return number;
  };
  if (launch.world_size() == 0) {
    // Programs that Ray places: --actor-num-nodes 4 --actor-num-gpus-per-node 8.
    for (size_t i = 0; i + 1 < launch.arguments.size(); ++i) {
      const ShellWord& number = launch.arguments[i + 1];
      const int64_t count = number.known() ? parse_integer(number.text).value_or(0) : 0;
      if (count < 1 || count > kMaxProcesses) {
        continue;
      }
      if (launch.arguments[i].text == "--actor-num-nodes") {
        launch.servers = count;
      } else if (launch.arguments[i].text == "--actor-num-gpus-per-node") {
        launch.per_server = count;
      }
    }
  }
  if (launch.launcher == "srun" && launch.world_size() == 0) {
    launch.world = value("SLURM_NTASKS");
  }
  const bool factory = launch.launcher == "llamafactory-cli";
  // torchrun reads what it is not told from variables, which Kubeflow's operator sets.
  if (launch.launcher == "torchrun") {
    launch.servers = launch.servers > 0 ? launch.servers : value("PET_NNODES");
    launch.per_server = launch.per_server > 0 ? launch.per_server : value("PET_NPROC_PER_NODE");
    launch.servers = std::max<int64_t>(launch.servers, 1);
    launch.per_server = std::max<int64_t>(launch.per_server, 1);
  }
  if (launch.kind == ProgramKind::kSwift || launch.launcher == "swift" || factory) {
    launch.per_server = value("NPROC_PER_NODE");
    launch.servers = std::max<int64_t>(value("NNODES"), 1);
    if (launch.per_server == 0) {
      launch.per_server = factory ? count_shown_devices(launch, origin, launch.notes) : 1;
    }
  }
}

// deepspeed --hostfile FILE: "worker-0 slots=8", a line a server; of a file that is here.
void read_hostfile(Launch& launch, const std::string& origin) {
  TrainerFlags options;
  options.add(launch.launcher_arguments, origin);
  const auto file = options.find("hostfile");
  const std::string path = file && file->word.known() ? find_beside(file->word.text, origin) : "";
  if (!path_exists(path)) {
    return;
  }
  int64_t servers = 0, slots = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    const size_t at = line.find("slots=");
    const std::string host = trimmed(line);
    if (at == std::string::npos || host.starts_with("#")) {
      continue;
    }
    const std::string digits = line.substr(at + 6);
    const int64_t count =
        parse_integer(digits.substr(0, digits.find_first_not_of("0123456789"))).value_or(0);
    ++servers;
    slots = servers == 1 ? count : std::min(slots, count);
  }
  if (slots > 0) {
    launch.servers = launch.servers > 0 ? std::min(launch.servers, servers) : servers;
    launch.per_server = slots;
    launch.world_where = file->where;
  }
}

void finish(Launch& launch, const std::string& origin) {
  read_environment(launch, origin);
  if (launch.launcher == "deepspeed" && launch.per_server == 0 && launch.world == 0) {
    read_hostfile(launch, origin);
  }
  if (launch.launcher == "deepspeed" && launch.per_server == 0 && launch.world == 0) {
    launch.servers = std::max<int64_t>(launch.servers, 1);
    launch.per_server = count_shown_devices(launch, origin, launch.notes);
  }
  if (launch.asks_machine) {
    const int64_t devices = count_shown_devices(launch, origin, launch.notes);
    for (int64_t* count : {&launch.world, &launch.per_server}) {
      *count = *count == kAssumedDevices ? devices : *count;
    }
  }
  if (launch.servers == 0 && launch.per_server > 0) {
    launch.servers = 1;
  }
  if (launch.world_size() > kMaxProcesses) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} processes are started, at most {} are possible", launch.world_where.text(),
                launch.world_size(), kMaxProcesses);
  }
}

// Without the unknown words in front: "$BINDING $LOCAL_RANK python3 train.py".
ShellCommand without_unknown_front(const ShellCommand& command) {
  ShellCommand rest = command;
  const auto first = std::find_if(rest.words.begin(), rest.words.end(),
                                  [](const ShellWord& word) { return names_program(word); });
  rest.words.erase(rest.words.begin(), first);
  return rest;
}

// The next command if it begins with an option: "--tp 8" on a line of its own.
std::optional<ShellWord> option_behind(const ShellScript& script, size_t command) {
  if (command + 1 >= script.commands.size()) {
    return std::nullopt;
  }
  const ShellWord& first = script.commands[command + 1].words.front();
  const bool option = first.known() && first.text.size() > 2 && first.text.starts_with("--");
  return option ? std::optional(first) : std::nullopt;
}

}  // namespace

std::optional<Launch> find_launch(const ShellScript& script) {
  std::optional<ShellCommand> chosen;
  int best = -1;
  int launches = 0;
  // Takes a command that launches something of rank `least` or more; what a variable holds may be
  // prose, such as the script's usage.
  const auto consider = [&](const ShellCommand& whole, int least, bool holds) {
    const ShellCommand command = without_unknown_front(whole);
    const LaunchLook look = look_at_words(command.words, script.origin);
    if (!look.launch || rank_of(*look.launch) < least || (look.has_bad_count && holds)) {
      return false;
    }
    best = rank_of(*look.launch);
    launches += best == kStarted ? 1 : 0;
    chosen = command;
    return true;
  };
  std::optional<ShellWord> stray;
  for (size_t i = 0; i < script.commands.size(); ++i) {
    if (consider(script.commands[i], best, false)) {
      stray = option_behind(script, i);
    }
  }
  std::string holder;
  if (best < kStarted) {
    for (const auto& [name, command] : script.held_commands) {
      if (consider(command, best + 1, true)) {
        holder = name;
        stray.reset();
      }
    }
  }
  if (!chosen) {
    return std::nullopt;
  }
  std::optional<Launch> read = read_launch_words(chosen->words, script.origin);
  if (!read) {
    return std::nullopt;
  }
  Launch& launch = *read;
  for (const auto& [name, value] : chosen->environment) {
    launch.environment.emplace(name, value);
  }
  launch.stray_option = stray;
  launch.joins_ray =
      std::any_of(script.commands.begin(), script.commands.end(), [](const ShellCommand& command) {
        return command.words.size() > 1 && command.words[0].text == "ray" &&
               command.words[1].text == "start";
      });
  const SourceLine where{script.origin, launch.line};
  if (launches > 1) {
    launch.notes.push_back(
        {fmt::format("{} programs are started; this one is checked", launches), where});
  }
  if (!holder.empty()) {
    launch.notes.push_back(
        {fmt::format("the command in ${} is checked; where it is run could not be read", holder),
         where});
  }
  finish(launch, script.origin);
  return read;
}

int64_t count_listed(const std::string& list) {
  const std::vector<std::string> parts = split(list, ',');
  return std::count_if(parts.begin(), parts.end(),
                       [](const std::string& part) { return !trimmed(part).empty(); });
}

bool has_ascend_variables(const std::map<std::string, ShellWord>& environment) {
  return std::any_of(environment.begin(), environment.end(), [](const auto& variable) {
    const std::string& name = variable.first;
    return name.starts_with("HCCL_") || name.starts_with("ASCEND_") ||
           name.starts_with("PYTORCH_NPU_");
  });
}

int64_t count_shown_devices(const Launch& launch, const std::string& origin,
                            std::vector<Note>& notes) {
  for (const char* name : {"ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto found = launch.environment.find(name);
    if (found != launch.environment.end() && found->second.known() && !found->second.text.empty()) {
      return count_listed(found->second.text);
    }
  }
  notes.push_back({fmt::format("how many processes is not told: one for each device of a server, "
                               "of which {} are assumed; give them with --devices N",
                               kAssumedDevices),
                   {origin, launch.line}});
  return kAssumedDevices;
}

Launch plain_launch(const std::vector<std::string>& words) {
  ShellScript script;
  script.origin = "arguments";
  script.commands.push_back(plain_command(words));
  std::map<std::string, ShellWord> environment;
  std::vector<ShellWord>& list = script.commands[0].words;
  while (!list.empty() && !list[0].text.starts_with("-") &&
         list[0].text.find('=') != std::string::npos) {
    const size_t equals = list[0].text.find('=');
    ShellWord value = list[0];
    value.text = list[0].text.substr(equals + 1);
    environment[list[0].text.substr(0, equals)] = value;
    list.erase(list.begin());
  }
  script.commands[0].environment = environment;
  if (!list.empty() && !list[0].text.starts_with("-")) {
    if (auto launch = find_launch(script)) {
      return *launch;
    }
  }
  Launch launch;
  launch.kind = ProgramKind::kPlain;
  launch.arguments = list;
  launch.environment = environment;
  return launch;
}

}  // namespace plait
