#include "doctor/jobs.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "doctor/chars.h"
#include "doctor/processes.h"

namespace plait {
namespace {

constexpr double kApart = 600;  // seconds between the lines of one job and the next

// "slurm-812" or "job_7" if a part of the path is named so; "" if none is.
std::string job_of_path(std::string_view path) {
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find_first_of("/:", begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const std::string_view stem = part.substr(0, part.find('.'));
    const bool named = stem.starts_with("slurm-") || stem.starts_with("job");
    const bool numbered = std::any_of(stem.begin(), stem.end(), is_digit);
    if (named && numbered) {
      return std::string(
          stem.substr(0, stem.find_first_of("_-", stem.find_first_of("0123456789"))));
    }
    begin = end + 1;
  }
  return "";
}

struct Group {
  std::vector<size_t> files;
  std::set<std::string> jobs;
  std::set<std::string> communicators;
  std::map<std::string, std::set<int64_t>> processes;  // by "host, rank 3" or "host, device 3"
  std::set<int64_t> pids;
  double first = -1;
  double last = -1;
};

// What a file tells of its job.
struct FileTraits {
  std::string job;
  std::string process;
  std::set<std::string> communicators;
  bool any() const { return !job.empty() || !process.empty() || !communicators.empty(); }
};

FileTraits traits_of(const ScannedFile& file, const RuleSet& rules) {
  FileTraits traits;
  traits.job = job_of_path(file.name);
  traits.process = process_of_path(file.name);
  for (const LogLine& line : file.lines) {
    for (const LogHit& hit : line.hits) {
      const char* word = hit.pattern == rules.communicator_pattern() ? "communicator" : "sync";
      const auto found = hit.captures.find(word);
      const std::string id = found == hit.captures.end() ? "" : communicator_of(found->second);
      if (!id.empty()) {
        traits.communicators.insert(id);
      }
    }
  }
  return traits;
}

void add_file(Group& group, const ScannedFile& file, size_t index, const FileTraits& traits) {
  group.files.push_back(index);
  if (!traits.job.empty()) {
    group.jobs.insert(traits.job);
  }
  group.communicators.insert(traits.communicators.begin(), traits.communicators.end());
  for (const LogLine& line : file.lines) {
    const LineOrigin& origin = line.origin;
    if (origin.time >= 0) {
      group.first = group.first < 0 ? origin.time : std::min(group.first, origin.time);
      group.last = std::max(group.last, origin.time);
    }
    if (origin.pid < 0) {
      continue;
    }
    group.pids.insert(origin.pid);
    if (origin.rank >= 0) {
      group.processes[origin.host + ", rank " + std::to_string(origin.rank)].insert(origin.pid);
    } else if (origin.device >= 0) {
      group.processes[origin.host + ", device " + std::to_string(origin.device)].insert(origin.pid);
    }
  }
}

bool have_common(const auto& a, const auto& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& item) { return b.contains(item); });
}

bool are_apart(const Group& a, const Group& b) {
  if (!a.jobs.empty() && !b.jobs.empty()) {
    return !have_common(a.jobs, b.jobs);
  }
  if (a.communicators.empty() || b.communicators.empty() || have_common(a.pids, b.pids)) {
    return false;
  }
  const bool same_place =
      std::any_of(a.processes.begin(), a.processes.end(), [&](const auto& item) {
        const auto other = b.processes.find(item.first);
        return other != b.processes.end() && !have_common(item.second, other->second);
      });
  const bool times =
      a.first >= 0 && b.first >= 0 && (a.first > b.last + kApart || b.first > a.last + kApart);
  return same_place || times;
}

void merge(Group& into, const Group& from) {
  into.files.insert(into.files.end(), from.files.begin(), from.files.end());
  into.jobs.insert(from.jobs.begin(), from.jobs.end());
  into.communicators.insert(from.communicators.begin(), from.communicators.end());
  into.pids.insert(from.pids.begin(), from.pids.end());
  for (const auto& [place, pids] : from.processes) {
    into.processes[place].insert(pids.begin(), pids.end());
  }
  if (from.first >= 0) {
    into.first = into.first < 0 ? from.first : std::min(into.first, from.first);
    into.last = std::max(into.last, from.last);
  }
}

std::string name_of(const Group& group) {
  if (!group.jobs.empty()) {
    return *group.jobs.begin();
  }
  constexpr size_t kShown = 4;
  std::string name = group.pids.size() == 1 ? "pid" : "pids";
  size_t shown = 0;
  for (const int64_t pid : group.pids) {
    name += (shown == 0 ? " " : ", ") + std::to_string(pid);
    if (++shown == kShown && group.pids.size() > kShown) {
      return name + ", ...";
    }
  }
  return name;
}

// Groups of files that share a job, a process or a communicator, in the order of the files;
// `shared` gets those that tell nothing.
std::vector<Group> group_files(const std::vector<ScannedFile>& files, const RuleSet& rules,
                               std::vector<size_t>& shared) {
  std::vector<size_t> parent(files.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t at) {
    while (parent[at] != at) {
      parent[at] = parent[parent[at]];
      at = parent[at];
    }
    return at;
  };
  std::vector<FileTraits> traits;
  std::map<std::string, size_t> first_with;
  for (size_t f = 0; f < files.size(); ++f) {
    traits.push_back(traits_of(files[f], rules));
    std::vector<std::string> keys;
    if (!traits[f].job.empty()) {
      keys.push_back("job " + traits[f].job);
    }
    if (!traits[f].process.empty()) {
      keys.push_back("process " + traits[f].process);
    }
    keys.insert(keys.end(), traits[f].communicators.begin(), traits[f].communicators.end());
    for (const std::string& key : keys) {
      const auto [slot, is_new] = first_with.try_emplace(key, f);
      if (!is_new) {
        parent[root(f)] = root(slot->second);
      }
    }
  }
  std::map<size_t, size_t> index;
  std::vector<Group> groups;
  for (size_t f = 0; f < files.size(); ++f) {
    if (!traits[f].any()) {
      shared.push_back(f);
      continue;
    }
    const auto [slot, is_new] = index.try_emplace(root(f), groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    add_file(groups[slot->second], files[f], f, traits[f]);
  }
  return groups;
}

}  // namespace

std::string communicator_of(std::string_view text) {
  constexpr size_t kStamp = 13;
  const size_t interface = text.find('%');
  if (interface == std::string_view::npos) {
    return "";
  }
  const size_t before = text.find_last_of("_[ ", interface);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  size_t digits = 0;
  for (size_t at = interface; at < text.size(); ++at) {
    digits = is_digit(text[at]) ? digits + 1 : 0;
    const bool ends = at + 1 == text.size() || !is_digit(text[at + 1]);
    if (digits >= kStamp && ends) {
      return std::string(text.substr(begin, at + 1 - begin));
    }
  }
  return "";
}

std::vector<JobLogs> split_jobs(const std::vector<ScannedFile>& files, const RuleSet& rules) {
  std::vector<size_t> shared;
  std::vector<Group> jobs;
  for (const Group& group : group_files(files, rules, shared)) {
    const auto mine = std::find_if(jobs.begin(), jobs.end(),
                                   [&](const Group& job) { return !are_apart(job, group); });
    if (mine == jobs.end()) {
      jobs.push_back(group);
    } else {
      merge(*mine, group);
    }
  }
  if (jobs.size() < 2) {
    JobLogs all;
    all.files.resize(files.size());
    std::iota(all.files.begin(), all.files.end(), size_t{0});
    return {all};
  }
  std::vector<JobLogs> result;
  for (Group& job : jobs) {
    JobLogs logs{name_of(job), std::move(job.files), job.last};
    logs.files.insert(logs.files.end(), shared.begin(), shared.end());
    std::sort(logs.files.begin(), logs.files.end());
    result.push_back(std::move(logs));
  }
  return result;
}

}  // namespace plait
