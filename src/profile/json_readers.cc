#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "profile/json_stream.h"
#include "profile/readers.h"
#include "profile/totals.h"

namespace plait {
namespace {

constexpr size_t kMostSpanNames = 20000;

void note(Notes& notes, const std::string& path, const std::string& problem) {
  if (!problem.empty()) {
    notes.push_back(fmt::format("{}: {}; what stands before is used", path, problem));
  }
}

// Ranks of "3-11"; false if it is no pair.
bool link_ends(const std::string& text, std::pair<int, int>& ends) {
  const size_t dash = text.find('-');
  if (dash == std::string::npos) {
    return false;
  }
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), text.data() + dash, ends.first);
  const auto second = std::from_chars(text.data() + dash + 1, end, ends.second);
  return first.ec == std::errc() && first.ptr == text.data() + dash && second.ec == std::errc() &&
         second.ptr == end;
}

}  // namespace

// step -> "p2p" or "collective" -> operator -> "Communication Time Info" -> figure, or
// "Communication Bandwidth Info" -> transport -> figure.
void read_communication(const std::string& path, RankProfile& rank, Notes& notes) {
  std::set<std::string> steps;
  const auto leaf = [&](const JsonLeaf& l) {
    if (l.path.size() < 5 || l.path[2] == "Total Op Info") {
      return;
    }
    steps.insert(l.path[0]);
    CollectiveTotal* found = find_collective(rank, l.path[2]);
    if (found == nullptr) {
      return;
    }
    CollectiveTotal& total = *found;
    const std::string& key = l.path.back();
    if (l.path[3] == "Communication Time Info") {
      if (key.starts_with("Elapse")) {
        ++total.count;
        total.elapse_ms += l.number;
      } else if (key.starts_with("Transit Time")) {
        total.transit_ms += l.number;
      } else if (key == "Wait Time(ms)") {
        total.wait_ms += l.number;
      }
    } else if (l.path.size() == 6 && key.starts_with("Transit Size")) {
      total.size_mb += l.number;
    }
  };
  note(notes, path, stream_json(path, {leaf, nullptr}));
  // Per step, as the split is.
  divide_collectives(rank, static_cast<int64_t>(steps.size()));
}

// step -> "p2p" or "collective" -> operator -> "src-dst" -> figure.
void read_communication_matrix(const std::string& path, RankProfile& rank, Notes& notes) {
  const auto leaf = [&](const JsonLeaf& l) {
    std::pair<int, int> ends;
    // Sums over operators would count twice.
    if (l.path.size() < 4 || !link_ends(l.path[l.path.size() - 2], ends) ||
        l.path[l.path.size() - 3].find("-total") != std::string::npos) {
      return;
    }
    LinkTotal* found = find_link(rank, ends);
    if (found == nullptr) {
      return;
    }
    LinkTotal& link = *found;
    const std::string& key = l.path.back();
    if (key.starts_with("Transport")) {
      link.transport = std::string(l.text.substr(0, 20));
    } else if (key.starts_with("Transit Size")) {
      link.size_mb += l.number;
    } else if (key.starts_with("Transit Time")) {
      link.time_ms += l.number;
    }
  };
  note(notes, path, stream_json(path, {leaf, nullptr}));
}

namespace {

struct TraceEvent {
  std::string phase, name, lane, process_name, pid;
  double begin = 0, duration = 0;
};

// Adds up the spans of a Chrome trace.
class TraceSum {
 public:
  void leaf(const JsonLeaf& l) {
    // An array of events, or an object with one.
    const size_t depth = !l.path.empty() && l.path.front() == "traceEvents" ? 2 : 1;
    if (l.path.size() <= depth || l.path[depth - 1] != "[]") {
      return;
    }
    const std::string& key = l.path[depth];
    if (l.path.size() == depth + 1) {
      if (key == "ph") {
        event_.phase = l.text;
      } else if (key == "name") {
        event_.name = std::string(l.text.substr(0, 200));
      } else if (key == "cat") {
        event_.lane = l.text;
      } else if (key == "pid") {
        event_.pid = l.text.empty() ? fmt::format("{:.0f}", l.number) : std::string(l.text);
      } else if (key == "ts") {
        event_.begin = l.number;
      } else if (key == "dur") {
        event_.duration = l.number;
      }
    } else if (key == "args" && l.path.back() == "name") {
      event_.process_name = std::string(l.text.substr(0, 200));
    }
  }

  void end(const std::vector<std::string>& path) {
    const size_t depth = !path.empty() && path.front() == "traceEvents" ? 2 : 1;
    if (path.size() != depth) {
      return;
    }
    if (event_.phase == "M" && event_.name == "process_name") {
      process_names_[event_.pid] = event_.process_name;
    } else if (event_.phase == "X") {
      if (event_.name.starts_with("ProfilerStep")) {
        ++steps_;
      }
      const auto key = std::make_pair(event_.pid, event_.lane.empty() ? event_.name : event_.lane);
      if (spans_.size() < kMostSpanNames || spans_.count(key) > 0) {
        Span& span = spans_[key];
        span.total += event_.duration;
        span.first = std::min(span.first, event_.begin);
        span.last = std::max(span.last, event_.begin + event_.duration);
        ++span.count;
      }
      // The first action of a step of plait.
      if (event_.lane == "compute" && event_.name == "forward 0.0") {
        ++first_actions_[event_.pid];
      }
    }
    event_ = {};
  }

  std::vector<RankProfile> ranks(int rank) const {
    for (const auto& [pid, name] : process_names_) {
      if (name == "Overlap Analysis") {
        return {overlap(pid, rank)};
      }
    }
    std::vector<RankProfile> list;
    for (const auto& [pid, name] : process_names_) {
      if (name.starts_with("rank ")) {
        list.push_back(plait_rank(pid, std::atoi(name.c_str() + 5)));
      }
    }
    return list;
  }

 private:
  struct Span {
    double total = 0, first = 1e300, last = 0;
    int64_t count = 0;
  };
  Span find(const std::string& pid, const char* name) const {
    const auto found = spans_.find({pid, name});
    return found == spans_.end() ? Span{} : found->second;
  }

  RankProfile overlap(const std::string& pid, int rank) const {
    RankProfile r;
    r.rank = rank;
    r.steps = std::max<int64_t>(steps_, 1);
    const auto n = static_cast<double>(r.steps);
    const double communication = find(pid, "Communication").total / n;
    r.split.computing = find(pid, "Computing").total / n;
    r.split.exposed = find(pid, "Communication(Not Overlapped)").total / n;
    r.split.overlapped = std::max(communication - r.split.exposed, 0.0);
    r.split.free = find(pid, "Free").total / n;
    r.split.stage = r.split.computing + r.split.exposed + r.split.free;
    r.slowest_step_us = r.split.stage;
    return r;
  }

  // Lanes compute, transfer (in the background) and wait. Bubble and other waits are not told
  // apart here.
  RankProfile plait_rank(const std::string& pid, int rank) const {
    RankProfile r;
    r.rank = rank;
    const auto steps = first_actions_.find(pid);
    r.steps = steps == first_actions_.end() ? 1 : steps->second;
    const auto n = static_cast<double>(r.steps);
    const Span compute = find(pid, "compute"), transfer = find(pid, "transfer");
    const Span wait = find(pid, "wait");
    const double first = std::min({compute.first, transfer.first, wait.first});
    const double last = std::max({compute.last, transfer.last, wait.last});
    // Waits are inside of compute spans.
    r.split.exposed = wait.total / n;
    r.split.computing = std::max(compute.total - wait.total, 0.0) / n;
    r.split.overlapped = std::max(transfer.total - wait.total, 0.0) / n;
    r.split.stage = std::max(last - first, 0.0) / n;
    r.split.free = std::max(r.split.stage - r.split.computing - r.split.exposed, 0.0);
    r.slowest_step_us = r.split.stage;
    return r;
  }

  TraceEvent event_;
  int64_t steps_ = 0;
  std::map<std::string, std::string> process_names_;
  std::map<std::pair<std::string, std::string>, Span> spans_;
  std::map<std::string, int64_t> first_actions_;
};

}  // namespace

std::vector<RankProfile> read_trace(const std::string& path, int rank, Notes& notes) {
  TraceSum sum;
  const std::string problem =
      stream_json(path, {[&](const JsonLeaf& l) { sum.leaf(l); },
                         [&](const std::vector<std::string>& p) { sum.end(p); }});
  note(notes, path, problem);
  std::vector<RankProfile> ranks = sum.ranks(rank);
  for (RankProfile& one : ranks) {
    one.source = path;
  }
  return ranks;
}

}  // namespace plait
