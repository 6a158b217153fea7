#include "profile/analysis.h"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "base/statistics.h"
#include "base/text.h"

namespace plait {
namespace {

Spread spread(const Profile& profile, const std::function<double(const RankProfile&)>& value) {
  Spread s;
  std::vector<double> values;
  for (const RankProfile& rank : profile.ranks) {
    if (rank.steps == 0) {
      continue;
    }
    const double v = value(rank);
    if (values.empty() || v > s.most) {
      s.most = v;
      s.most_rank = rank.rank;
    }
    s.least = values.empty() ? v : std::min(s.least, v);
    values.push_back(v);
  }
  s.median = median(std::move(values));
  return s;
}

StepSplit mean_split(const Profile& profile) {
  StepSplit mean;
  double count = 0;
  for (const RankProfile& rank : profile.ranks) {
    if (rank.steps > 0) {
      ++count;
      mean.computing += rank.split.computing;
      mean.exposed += rank.split.exposed;
      mean.overlapped += rank.split.overlapped;
      mean.free += rank.split.free;
      mean.stage += rank.split.stage;
      mean.bubble += rank.split.bubble;
      mean.preparing += rank.split.preparing;
    }
  }
  const double n = std::max(count, 1.0);
  return {mean.computing / n, mean.exposed / n, mean.overlapped / n, mean.free / n,
          mean.stage / n,     mean.bubble / n,  mean.preparing / n};
}

std::vector<OperatorShare> operator_shares(const Profile& profile, const StepSplit& mean) {
  std::map<std::string, OperatorTotal> totals;
  double all_us = 0;
  for (const RankProfile& rank : profile.ranks) {
    for (const auto& [type, total] : rank.operators) {
      // Collectives and waits are in the split.
      if (type.starts_with("hcom_") || total.core == "HCCL" || total.core == "COMMUNICATION" ||
          total.core.starts_with("EVENT_")) {
        continue;
      }
      OperatorTotal& sum = totals[type];
      sum.core = total.core;
      sum.count += total.count;
      sum.total_us += total.total_us;
      all_us += total.total_us;
    }
  }
  std::vector<OperatorShare> list;
  for (const auto& [type, total] : totals) {
    OperatorShare share;
    share.type = type;
    share.core = total.core;
    share.share = all_us > 0 ? total.total_us / all_us : 0;
    share.ms_per_step = share.share * mean.computing * kMsPerUs;
    share.count = total.count;
    share.mean_us = total.count > 0 ? total.total_us / static_cast<double>(total.count) : 0;
    list.push_back(std::move(share));
  }
  std::stable_sort(list.begin(), list.end(), [](const OperatorShare& a, const OperatorShare& b) {
    return a.share > b.share;
  });
  return list;
}

std::vector<LinkSpeed> slow_links(const Profile& profile) {
  std::map<std::pair<int, int>, LinkTotal> links;
  for (const RankProfile& rank : profile.ranks) {
    for (const auto& [ends, link] : rank.links) {
      LinkTotal& sum = links[ends];
      sum.transport = link.transport;
      sum.size_mb += link.size_mb;
      sum.time_ms += link.time_ms;
    }
  }
  std::map<std::string, std::vector<double>> speeds;
  for (const auto& [ends, link] : links) {
    if (ends.first != ends.second && link.time_ms > 0) {
      speeds[link.transport].push_back(link.gb_per_s());
    }
  }
  std::vector<LinkSpeed> slow;
  for (const auto& [ends, link] : links) {
    if (ends.first == ends.second || link.time_ms <= 0 || speeds[link.transport].size() < 3) {
      continue;
    }
    const double typical = median(speeds[link.transport]);
    if (link.gb_per_s() < 0.7 * typical) {
      slow.push_back({ends.first, ends.second, link.transport, link.gb_per_s(), typical});
    }
  }
  std::stable_sort(slow.begin(), slow.end(), [](const LinkSpeed& a, const LinkSpeed& b) {
    return a.gb_per_s / a.typical < b.gb_per_s / b.typical;
  });
  return slow;
}

// Milliseconds of a rank in collectives of a kind, and how much of it is waiting.
struct Communication {
  double gradients = 0, gathers = 0, experts = 0, pipeline = 0, elapse = 0, wait = 0;
};

Communication communication(const Profile& profile) {
  Communication c;
  double ranks = 0;
  for (const RankProfile& rank : profile.ranks) {
    ranks += rank.collectives.empty() ? 0 : 1;
    for (const auto& [name, total] : rank.collectives) {
      const std::string kind = lower(name.first);
      const bool gradients = kind.find("allreduce") != std::string::npos ||
                             kind.find("reducescatter") != std::string::npos;
      double& part = gradients                                     ? c.gradients
                     : kind.find("allgather") != std::string::npos ? c.gathers
                     : kind.find("alltoall") != std::string::npos  ? c.experts
                                                                   : c.pipeline;
      part += total.elapse_ms;
      c.elapse += total.elapse_ms;
      c.wait += total.wait_ms;
    }
  }
  const double n = std::max(ranks, 1.0);
  return {c.gradients / n, c.gathers / n, c.experts / n, c.pipeline / n, c.elapse / n, c.wait / n};
}

class Adviser {
 public:
  Adviser(const Profile& profile, const Analysis& analysis)
      : a_(analysis),
        m_(analysis.mean),
        step_(analysis.mean.stage * kMsPerUs),
        communication_(communication(profile)),
        ranks_(profile.ranks.size()) {}

  std::vector<Advice> run() {
    if (step_ > 0) {
      exposed();
      bubble();
      idle();
      straggler();
      preparing();
      links();
    }
    operators();
    std::stable_sort(list_.begin(), list_.end(),
                     [](const Advice& x, const Advice& y) { return x.gain_ms > y.gain_ms; });
    return std::move(list_);
  }

 private:
  void exposed();
  void bubble();
  void idle();
  void straggler();
  void preparing();
  void links();
  void operators();

  const Analysis& a_;
  const StepSplit& m_;
  double step_;  // ms
  Communication communication_;
  size_t ranks_;
  std::vector<Advice> list_;
};

// Of a chain of buckets under backward, the last one has nothing to hide behind.
void Adviser::exposed() {
  constexpr double kBuckets = 8;
  const double exposed = std::max(m_.exposed - m_.bubble, 0.0) * kMsPerUs;
  const double all = exposed + m_.overlapped * kMsPerUs;
  if (exposed < 0.05 * step_) {
    return;
  }
  const Communication& c = communication_;
  if (c.elapse > 0 && c.wait > 0.5 * c.elapse) {
    list_.push_back(
        {"ranks wait for each other inside collectives", c.wait / c.elapse * exposed,
         fmt::format("{:.0f} % of the time in collectives is waiting ({:.1f} of {:.1f} ms): of "
                     "{:.1f} ms exposed, about {:.1f} ms are no transfer",
                     100 * c.wait / c.elapse, c.wait, c.elapse, exposed,
                     c.wait / c.elapse * exposed),
         "balance the work: see the slowest rank above, uneven stages, sequence lengths, experts; "
         "a "
         "faster network does not help"});
  }
  const double room = std::max(m_.computing - m_.overlapped, 0.0) * kMsPerUs;
  const double gain = std::min(exposed * (1 - 1 / kBuckets), room);
  const bool experts = c.experts > c.gradients && c.experts > c.gathers;
  list_.push_back(
      {experts ? "hide the exchange of tokens between experts"
               : "hide communication behind compute",
       gain,
       fmt::format("communication is {:.1f} of {:.1f} ms and {:.0f} % exposed: {:.1f} ms; the last "
                   "of {:.0f} buckets stays, {:.1f} ms of compute are free to hide under",
                   all, step_, 100 * exposed / all, exposed, kBuckets, room),
       experts ? "overlap all-to-all with compute (--moe-alltoall-overlap-comm, or smaller ep)"
               : "overlap gradients and gathers (--overlap-grad-reduce --overlap-param-gather; MC2 "
                 "for tp)"});
  list_.push_back({"accumulate twice the micro-batches a step", exposed / 2,
                   fmt::format("gradients are reduced half as often: {:.1f} / 2 ms for the same "
                               "tokens; only the part of dp shrinks",
                               exposed),
                   "double --global-batch-size at the same micro batch"});
}

// (p - 1) / (m + p - 1) of a step: about half with twice the micro-batches or two virtual stages.
void Adviser::bubble() {
  const double bubble = m_.bubble * kMsPerUs;
  if (bubble >= 0.03 * step_) {
    list_.push_back({"shorten the pipeline bubble", bubble / 2,
                     fmt::format("{:.1f} of {:.1f} ms wait for other stages; the bubble is "
                                 "(p - 1) / (m + p - 1) of a step and halves with 2 m",
                                 bubble, step_),
                     "more micro-batches a step, interleaved stages (vpp = 2), or fewer stages"});
  }
}

void Adviser::idle() {
  const double idle = m_.free * kMsPerUs;
  if (idle < 0.05 * step_) {
    return;
  }
  double count = 0, total = 0;
  for (const OperatorShare& op : a_.operators) {
    count += static_cast<double>(op.count);
    total += op.mean_us * static_cast<double>(op.count);
  }
  const double mean = count > 0 ? total / count : 0;
  const std::string small =
      count == 0 ? ""
                 : fmt::format("; {:.0f} operators of {:.0f} us on average{}", count, mean,
                               mean < 30 ? ": the host launches slower than they run" : "");
  list_.push_back(
      {"keep the device busy: it waits for the host", std::max(idle - 0.03 * step_, 0.0),
       fmt::format("{:.1f} of {:.1f} ms ({:.0f} %) nothing runs{}", idle, step_, 100 * idle / step_,
                   small),
       "TASK_QUEUE_ENABLE=2 and CPU_AFFINITY_CONF=1, fused operators, a larger micro batch, no "
       "synchronisation (.item(), prints) in the step"});
}

void Adviser::straggler() {
  if (ranks_ < 2) {
    return;
  }
  const double behind = a_.computing.most - a_.computing.median;
  if (behind < 0.03 * step_) {
    return;
  }
  list_.push_back(
      {fmt::format("rank {} computes longer than the others", a_.computing.most_rank), behind,
       fmt::format("{:.1f} ms against {:.1f} ms of the median rank: all others wait {:.1f} ms a "
                   "step",
                   a_.computing.most, a_.computing.median, behind),
       m_.bubble > 0
           ? "move layers away from its stage; if other ranks of the stage are fast, look at the "
             "device: clock, temperature, power (npu-smi info -t common)"
           : "look at the device (npu-smi info -t common: clock, temperature, power), and at its "
             "share of the data"});
}

void Adviser::preparing() {
  const double preparing = m_.preparing * kMsPerUs;
  if (preparing >= 0.02 * step_) {
    list_.push_back({"prepare data ahead", preparing,
                     fmt::format("{:.1f} of {:.1f} ms before the first operator", preparing, step_),
                     "more loader workers, pinned memory, prefetch; data on local disks"});
  }
}

// A ring runs at the speed of its slowest link.
void Adviser::links() {
  if (a_.slow_links.empty()) {
    return;
  }
  const LinkSpeed& link = a_.slow_links.front();
  const double exposed = std::max(m_.exposed - m_.bubble, 0.0) * kMsPerUs;
  list_.push_back(
      {fmt::format("link {} -> {} ({}) is slow", link.source, link.destination, link.transport),
       exposed * (1 - link.gb_per_s / link.typical),
       fmt::format("{:.1f} GB/s against {:.1f} GB/s of a typical {} link; collectives run at the "
                   "slowest: at most {:.0f} % of {:.1f} ms exposed",
                   link.gb_per_s, link.typical, link.transport,
                   100 * (1 - link.gb_per_s / link.typical), exposed),
       "`plait comm links` on these ranks; optics and errors (hccn_tool -i N -optical -g, -stat "
       "-g)"});
}

void Adviser::operators() {
  static const std::set<std::string> kMoves = {"TransData", "Transpose", "Cast",  "TensorMove",
                                               "ViewCopy",  "AsStrided", "Slice", "StridedSlice",
                                               "Concat",    "ConcatD",   "SplitD"};
  double moves = 0, cpu = 0;
  std::string cpu_types;
  for (const OperatorShare& op : a_.operators) {
    moves += kMoves.count(op.type) > 0 ? op.ms_per_step : 0;
    if (op.core == "AI_CPU" || op.core == "AICPU") {
      cpu += op.ms_per_step;
      cpu_types += (cpu_types.empty() ? "" : ", ") + op.type;
    }
  }
  const double compute = m_.computing * kMsPerUs;
  if (cpu > 0.005 * compute && cpu > 0) {
    list_.push_back({"move operators off the AI CPU", cpu,
                     fmt::format("{:.2f} of {:.1f} ms of compute run on it: {}", cpu, compute,
                                 cpu_types.substr(0, 200)),
                     "types or shapes that the AI cores take (no int64, no float64), or another "
                     "operator"});
  }
  if (moves > 0.05 * compute) {
    list_.push_back(
        {"copy and convert less", moves,
         fmt::format("{:.1f} of {:.1f} ms of compute only move or convert data", moves, compute),
         "one data type from end to end, contiguous tensors, "
         "torch.npu.config.allow_internal_format = False"});
  }
}

}  // namespace

Analysis analyse(const Profile& profile) {
  Analysis a;
  a.mean = mean_split(profile);
  for (const RankProfile& rank : profile.ranks) {
    a.steps = std::max(a.steps, rank.steps);
  }
  a.step = spread(profile, [](const RankProfile& r) { return r.split.stage * kMsPerUs; });
  a.computing = spread(profile, [](const RankProfile& r) { return r.split.computing * kMsPerUs; });
  a.exposed = spread(profile, [](const RankProfile& r) {
    return std::max(r.split.exposed - r.split.bubble, 0.0) * kMsPerUs;
  });
  a.free = spread(profile, [](const RankProfile& r) { return r.split.free * kMsPerUs; });
  a.bubble = spread(profile, [](const RankProfile& r) { return r.split.bubble * kMsPerUs; });
  a.operators = operator_shares(profile, a.mean);
  a.slow_links = slow_links(profile);
  a.advice = Adviser(profile, a).run();
  return a;
}

}  // namespace plait
