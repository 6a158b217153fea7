// plait doctor collect: this host, the hosts of an MPI job, or hosts over ssh.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json_full.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "comm/gather_values.h"
#include "comm/rank_runner.h"
#include "comm/world_groups.h"
#include "doctor/collect.h"
#include "doctor/run_command.h"

namespace plait {
namespace {

struct CollectFlags {
  std::vector<std::string> paths;
  std::string out = "plait-logs.tar.gz";
  std::string part;  // write one host's part here instead
  std::vector<std::string> hosts;
  std::string remote = "plait";
  int max_mb = 200;
  double limit_s = 300;
  bool no_state = false;
  bool json = false;
};

double wall_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A folder for parts, removed at the end.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "plait-collect-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw_errno("make a folder like", name);
    }
    folder_ = name;
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

// Where CANN writes logs for this user; those that exist.
std::vector<std::string> default_log_places() {
  std::vector<std::string> places;
  const auto add = [&](const char* variable, const std::string& below) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') {
      places.push_back(std::string(value) + below);
    }
  };
  add("ASCEND_PROCESS_LOG_PATH", "");
  add("ASCEND_WORK_PATH", "/log");
  add("HOME", "/ascend/log");
  places.emplace_back("/var/log/npu");
  std::erase_if(places, [](const std::string& place) {
    std::error_code error;
    return !std::filesystem::is_directory(place, error);
  });
  return places;
}

CollectOptions host_options(const CollectFlags& flags, int num_hosts) {
  CollectOptions options;
  options.paths = default_log_places();
  options.paths.insert(options.paths.end(), flags.paths.begin(), flags.paths.end());
  options.max_bytes = (int64_t{flags.max_mb} << 20) / num_hosts;
  options.state = !flags.no_state;
  return options;
}

// --- over ssh ---

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) {
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result + "'";
}

std::vector<std::string> ssh_words(const std::string& host, const std::string& command) {
  return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, command};
}

// Seconds since 1970 that "date +%s.%N" printed on the last line; < 0 if there are none.
double printed_time(const std::string& output) {
  const size_t digit = output.find_last_not_of(" \n\r");
  const size_t line = digit == std::string::npos ? 0 : output.rfind('\n', digit) + 1;
  double value = -1;
  const auto [stop, error] =
      std::from_chars(output.data() + line, output.data() + output.size(), value);
  return error == std::errc() ? value : -1;
}

HostPart collect_over_ssh(const std::string& host, const CollectFlags& flags,
                          const std::string& archive) {
  HostPart part;
  part.host = host;
  const double before = wall_clock();
  const CommandResult date = run_command(ssh_words(host, "date +%s.%N"), 30);
  const double after = wall_clock();
  const double there = printed_time(date.output);
  if (!date.started || date.status != 0 || there < 0) {
    part.problem = !date.started    ? "ssh is not on PATH"
                   : date.timed_out ? "ssh did not answer within 30 s"
                                    : "ssh failed: " + printable(date.output.substr(0, 300));
    return part;
  }
  part.offset_s = there - (before + after) / 2;
  part.uncertainty_s = (after - before) / 2;
  std::string command =
      quoted(flags.remote) + " doctor collect --part - --max-mb " +
      std::to_string(std::max<int>(1, flags.max_mb / static_cast<int>(flags.hosts.size())));
  command += flags.no_state ? " --no-state" : "";
  for (const std::string& path : flags.paths) {
    command += " " + quoted(path);
  }
  const CommandResult result = run_command_into(archive, ssh_words(host, command), flags.limit_s);
  std::error_code error;
  if (std::filesystem::file_size(archive, error) > 0 && !error) {
    part.archive = archive;
  }
  if (result.timed_out) {
    part.problem = fmt::format("not done within {} s (--limit)", flags.limit_s);
  } else if (result.status != 0) {
    part.problem = fmt::format("'{}' ended with status {}: {}", flags.remote, result.status,
                               printable(result.output.substr(0, 300)));
  }
  return part;
}

std::vector<HostPart> collect_hosts(const CollectFlags& flags, const Scratch& scratch) {
  constexpr size_t kAtOnce = 16;
  std::vector<HostPart> parts(flags.hosts.size());
  for (size_t begin = 0; begin < parts.size(); begin += kAtOnce) {
    std::vector<std::thread> threads;
    for (size_t i = begin; i < std::min(begin + kAtOnce, parts.size()); ++i) {
      threads.emplace_back([&, i] {
        parts[i] = collect_over_ssh(flags.hosts[i], flags, scratch.path(std::to_string(i)));
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  return parts;
}

// --- in an MPI job ---

// This rank's clock minus rank 0's: read right after barriers, the median of some.
double clock_offset(ProcessGroup& group) {
  std::array<double, 7> offsets{};
  for (double& offset : offsets) {
    group.barrier();
    const std::vector<double> clocks = gather_values(group, wall_clock());
    offset = clocks[static_cast<size_t>(group.rank())] - clocks[0];
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets[offsets.size() / 2];
}

// Moves a file from rank `from` to rank 0 in pieces.
void move_to_root(World& world, ProcessGroup& group, int from, const std::string& path) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const bool sends = group.rank() == from;
  const std::string content = sends ? read_file(path) : std::string();
  const auto size = static_cast<int64_t>(content.size());
  const int64_t total = gather_values(group, size)[static_cast<size_t>(from)];
  if (from == 0 || (!sends && group.rank() != 0)) {
    return;
  }
  Stream& stream = world.device().stream();
  const Buffer buffer(world.device(), kPiece, MemoryCategory::kComm);
  std::string received(sends ? 0 : static_cast<size_t>(total), '\0');
  for (int64_t at = 0; at < total; at += kPiece) {
    const int64_t bytes = std::min(kPiece, total - at);
    TransferOptions transfer;
    transfer.buffer = buffer.ptr();
    transfer.bytes = bytes;
    transfer.peer = sends ? 0 : from;
    if (sends) {
      stream.copy_to_device(buffer.ptr(), content.data() + at, bytes);
      group.send(transfer);
    } else {
      group.recv(transfer);
      stream.copy_to_host(received.data() + at, buffer.ptr(), bytes);
      stream.synchronize();
    }
  }
  if (!sends) {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(received)));
    file.commit();
  }
}

// The first rank of each host collects; returns what rank 0 got, nothing elsewhere.
std::vector<HostPart> collect_job(World& world, const CollectFlags& flags, const Scratch& scratch) {
  const std::unique_ptr<ProcessGroup> group = create_world_group(world, "collect");
  const std::vector<std::string> names = group->gather_bytes(host_name());
  std::vector<int> collectors;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(rank), names[rank]) ==
        names.begin() + static_cast<std::ptrdiff_t>(rank)) {
      collectors.push_back(static_cast<int>(rank));
    }
  }
  const double offset = clock_offset(*group);
  const bool collects =
      std::find(collectors.begin(), collectors.end(), group->rank()) != collectors.end();
  const std::string mine = scratch.path(std::to_string(group->rank()));
  std::string problem;
  if (collects) {
    try {
      collect_host(host_options(flags, static_cast<int>(collectors.size())), mine);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  const std::vector<std::string> problems = group->gather_bytes(problem);
  const std::vector<double> offsets = gather_values(*group, offset);
  std::vector<HostPart> parts;
  for (const int rank : collectors) {
    const auto at = static_cast<size_t>(rank);
    HostPart part{names[at], "", problems[at], offsets[at], 0.001};
    const std::string path = scratch.path(std::to_string(rank));
    if (part.problem.empty()) {
      move_to_root(world, *group, rank, path);
      part.archive = path;
    }
    parts.push_back(std::move(part));
  }
  return group->rank() == 0 ? parts : std::vector<HostPart>();
}

// --- the result ---

void report(const CollectFlags& flags, size_t num_hosts, const CollectSummary& summary) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(flags.out, error));
  if (flags.json) {
    Json json;
    json["archive"] = flags.out;
    json["hosts"] = num_hosts;
    json["files"] = summary.num_files;
    json["bytes"] = size;
    json["left_out"] = summary.num_left_out;
    json["removed"] = Json::object();
    for (const auto& [kind, count] : summary.removed) {
      json["removed"][kind] = count;
    }
    json["problems"] = summary.problems;
    std::fputs((dump_json(json, 2) + "\n").c_str(), stdout);
    return;
  }
  std::printf("%s: %zu host(s), %lld files, %.1f MB\n", flags.out.c_str(), num_hosts,
              static_cast<long long>(summary.num_files), static_cast<double>(size) / 1e6);
  std::string removed;
  for (const auto& [kind, count] : summary.removed) {
    removed += fmt::format("{}{} x {}", removed.empty() ? "" : ", ", count, kind);
  }
  std::printf("Removed: %s\n",
              removed.empty() ? "no secrets were found"
                              : (removed + " (HOST/plait-state/removed.txt says where)").c_str());
  if (summary.num_left_out > 0) {
    std::printf("Left out or cut: %lld files (HOST/plait-state/left_out.txt says which and why)\n",
                static_cast<long long>(summary.num_left_out));
  }
  for (const std::string& problem : summary.problems) {
    std::printf("Problem: %s\n", printable(problem).c_str());
  }
  std::printf("Look through it before you send it. Read it with: plait doctor logs %s\n",
              flags.out.c_str());
}

int finish(const CollectFlags& flags, const std::vector<HostPart>& parts) {
  const CollectSummary summary = merge_parts(parts, flags.out);
  report(flags, parts.size(), summary);
  return summary.problems.empty() ? 0 : 1;
}

int write_part(const CollectFlags& flags, const Scratch& scratch) {
  const std::string path = flags.part == "-" ? scratch.path("part") : flags.part;
  collect_host(host_options(flags, 1), path);
  if (flags.part == "-") {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  }
  return 0;
}

int run_collect(const CollectFlags& flags) {
  const Scratch scratch;
  if (!flags.part.empty()) {
    return write_part(flags, scratch);
  }
  if (!flags.hosts.empty()) {
    return finish(flags, collect_hosts(flags, scratch));
  }
  if (!under_mpi_launcher()) {
    collect_host(host_options(flags, 1), scratch.path("0"));
    return finish(flags, {{host_name(), scratch.path("0"), "", 0, 0}});
  }
  RankRunnerOptions options;
  options.ranks = launcher_world_size();
  options.threads_per_rank = 1;
  options.comm.deadline_s = flags.limit_s;
  int status = 0;
  run_ranks(options, [&](World& world) {
    const std::vector<HostPart> parts = collect_job(world, flags, scratch);
    status = world.rank() == 0 ? finish(flags, parts) : 0;
  });
  return status;
}

void add_collect_options(CLI::App& app, CollectFlags& flags) {
  app.add_option("path", flags.paths, "more files and folders, on every host");
  app.add_option("-o,--out", flags.out, "the archive");
  app.add_option("--hosts", flags.hosts, "hosts to reach over ssh, with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--remote-plait", flags.remote, "the program on those hosts");
  app.add_option("--max-mb", flags.max_mb, "size of the archive, MB")->check(CLI::Range(1, 100000));
  app.add_option("--limit", flags.limit_s, "seconds that one host may take")
      ->check(CLI::Range(1.0, 86400.0));
  app.add_flag("--no-state", flags.no_state, "logs only: no doctor env, no dmesg");
  app.add_option("--part", flags.part,
                 "write this host's part alone to a file or - (what --hosts calls there)");
  app.add_flag("--json", flags.json, "print the result as JSON");
}

}  // namespace

void add_doctor_collect_command(CLI::App& doctor, Command& chosen) {
  auto flags = std::make_shared<CollectFlags>();
  CLI::App* collect = doctor.add_subcommand(
      "collect", "one archive of the logs and the state of all hosts, without secrets");
  collect->footer(
      "Takes ~/ascend/log (ASCEND_PROCESS_LOG_PATH, ASCEND_WORK_PATH), /var/log/npu and the paths "
      "given: the newest files first, as many as fit. Under mpirun or srun rank 0 gathers over "
      "MPI; --hosts uses your own ssh without asking for passwords.\n"
      "Exit status: 0 all hosts are in it; 1 some are not, or not whole.\n"
      "Examples:\n"
      "  plait doctor collect train.log -o bundle.tar.gz\n"
      "  mpirun -np 16 plait doctor collect -o bundle.tar.gz\n"
      "  plait doctor collect --hosts h0,h1 /data/run3 -o bundle.tar.gz\n"
      "  plait doctor logs bundle.tar.gz");
  add_collect_options(*collect, *flags);
  collect->callback([flags, &chosen] { chosen = [flags] { return run_collect(*flags); }; });
}

}  // namespace plait
