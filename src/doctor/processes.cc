#include "doctor/processes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "doctor/chars.h"
#include "doctor/numbers.h"

namespace plait {
namespace {

struct PathOfProcess {
  std::string folder;  // that the logs of all kinds lie below
  std::string pid;     // "" if the name is of no process
  bool is_of_device = false;
};

PathOfProcess split(const std::string& path) {
  PathOfProcess result;
  const size_t slash = path.find_last_of("/:");
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string_view name = std::string_view(path).substr(begin);
  for (const std::string_view kind : {"plog-", "device-"}) {
    const size_t end = run_end(name, kind.size(), is_digit);
    if (name.starts_with(kind) && end > kind.size()) {
      result.pid = name.substr(kind.size(), end - kind.size());
      result.is_of_device = kind[0] == 'd';
    }
  }
  result.folder = "/" + path.substr(0, begin);
  for (const std::string_view part : {"/debug/", "/run/", "/security/"}) {
    const size_t at = result.folder.rfind(part);
    if (at != std::string::npos) {
      result.folder.resize(at + 1);
    }
  }
  return result;
}

std::string key_of(const std::string& folder, const std::string& pid) {
  return folder + " " + pid;
}

std::string process_in(const PathOfProcess& path, const ScannedFile& file, const LogLine& line) {
  const bool is_told = line.origin.pid >= 0 && !path.is_of_device;
  if (path.pid.empty()) {
    return is_told ? key_of(file.name, std::to_string(line.origin.pid)) : "";
  }
  return key_of(path.folder, is_told ? std::to_string(line.origin.pid) : path.pid);
}

struct Identity {
  int64_t size = 0;  // of the communicator that told the rank
  int rank = -1;
  int device = -1;
  std::string server;  // its address
  std::string host;    // as the path names it
};

bool on_one_server(const Identity& a, const Identity& b) {
  return a.server.empty() || b.server.empty() ? !a.host.empty() && a.host == b.host
                                              : a.server == b.server;
}

class ProcessNamer {
 public:
  ProcessNamer(std::vector<ScannedFile>& files, const RuleSet& rules)
      : files_(files), rules_(rules) {}

  void name() {
    for (const ScannedFile& file : files_) {
      const PathOfProcess path = split(file.name);
      for (const LogLine& line : file.lines) {
        for (const LogHit& hit : line.hits) {
          if (hit.captures.contains("setup_rank")) {
            learn(process_in(path, file, line), line, hit.captures);
          } else if (hit.captures.contains("rank") && hit.captures.contains("g_rank")) {
            learn_waiting(process_in(path, file, line), hit.captures);
          }
        }
      }
    }
    for (ScannedFile& file : files_) {
      const PathOfProcess path = split(file.name);
      const bool path_names_rank = read_path_origin(file.name).rank >= 0;
      for (LogLine& line : file.lines) {
        const auto known = identities_.find(process_in(path, file, line));
        if (known != identities_.end()) {
          tell(line.origin, known->second, path_names_rank);
        }
        name_peers(line, known == identities_.end() ? nullptr : &known->second);
      }
    }
  }

 private:
  void learn(const std::string& process, const LogLine& line, const Captures& words) {
    const int64_t size = number_of(words, "setup_size").value_or(0);
    const int64_t rank = number_of(words, "setup_rank").value_or(-1);
    if (process.empty() || rank < 0 || rank >= size || size > INT32_MAX) {
      return;
    }
    largest_ = std::max(largest_, size);
    Identity& identity = identities_[process];
    if (size > identity.size) {
      identity.size = size;
      identity.rank = static_cast<int>(rank);
    }
    const int64_t device = number_of(words, "setup_device").value_or(-1);
    if (identity.device < 0 && device < INT32_MAX) {
      identity.device = static_cast<int>(device);
    }
    if (const auto server = words.find("setup_server");
        server != words.end() && identity.server.empty()) {
      identity.server = server->second.substr(0, server->second.find('%'));
    }
    identity.host = line.origin.host;
  }

  // A process without a run log tells its rank when it names whom it waits for.
  void learn_waiting(const std::string& process, const Captures& words) {
    const int64_t rank = number_of(words, "rank").value_or(-1);
    if (!process.empty() && rank >= 0 && rank < INT32_MAX) {
      Identity& identity = identities_[process];
      identity.rank = identity.size == 0 ? static_cast<int>(rank) : identity.rank;
    }
  }

  static void tell(LineOrigin& origin, const Identity& identity, bool path_names_rank) {
    origin.rank = path_names_rank ? origin.rank : identity.rank;
    origin.device = origin.device < 0 ? identity.device : origin.device;
    origin.host = origin.host.empty() ? identity.server : origin.host;
  }

  void name_peers(LogLine& line, const Identity* mine) const {
    for (LogHit& hit : line.hits) {
      if (!rules_.is_peer_device_pattern(hit.pattern)) {
        continue;
      }
      if (!line.origin.host.empty()) {
        hit.captures.emplace("g_host", line.origin.host);
      }
      const int64_t device = number_of(hit.captures, "g_device").value_or(-1);
      Identity place;
      place.server = mine == nullptr ? "" : mine->server;
      place.host = line.origin.host;
      if (const int64_t rank = rank_of_device(place, device); rank >= 0) {
        hit.captures.emplace("g_rank", std::to_string(rank));
      }
    }
  }

  // Of a server; by the step between device and rank if that process left no log and all others of
  // the server have the same step. -1 if it cannot be told.
  int64_t rank_of_device(const Identity& place, int64_t device) const {
    constexpr int64_t kFewest = 2;  // ranks that must agree on the step
    std::set<int64_t> steps;
    int64_t num_told = 0;
    for (const auto& [process, other] : identities_) {
      if (other.size != largest_ || other.device < 0 || !on_one_server(place, other)) {
        continue;
      }
      if (other.device == device) {
        return other.rank;
      }
      num_told += 1;
      steps.insert(static_cast<int64_t>(other.rank) - other.device);
    }
    const int64_t rank = steps.size() == 1 ? device + *steps.begin() : -1;
    return device >= 0 && num_told >= kFewest && rank < largest_ ? rank : -1;
  }

  std::vector<ScannedFile>& files_;
  const RuleSet& rules_;
  std::map<std::string, Identity> identities_;  // by process
  int64_t largest_ = 0;                         // communicator
};

}  // namespace

std::string process_of_path(const std::string& path) {
  const PathOfProcess parts = split(path);
  return parts.pid.empty() ? "" : key_of(parts.folder, parts.pid);
}

std::string process_of(const ScannedFile& file, const LogLine& line) {
  return process_in(split(file.name), file, line);
}

void name_processes(std::vector<ScannedFile>& files, const RuleSet& rules) {
  ProcessNamer(files, rules).name();
}

}  // namespace plait
