#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "plan/memory_model.h"
#include "plan/neighbours.h"
#include "plan/scatter.h"
#include "plan/search_space.h"
#include "plan/time_model.h"

namespace plait {
namespace {

// A layout that fits, with a time that it cannot beat.
struct Survivor {
  TrainJob job;
  double bound = 0;
  double peak = 0;
  double simulated = 0;  // its step time, if it was simulated for a plot
};

// Costs that many layouts share. One per thread: nothing is shared.
class CostCache {
 public:
  explicit CostCache(const Cluster& cluster) : cluster_(cluster) {}

  struct Entry {
    MemoryCosts memory;
    TimeCosts time;
  };

  // The places of tp, cp and ep groups do not depend on dp and pp.
  const Entry& costs(const TrainJob& job) {
    const Layout& l = job.layout;
    const Key key{
        l.tp, l.cp, l.ep, l.sp, static_cast<int>(l.recompute), job.batch.micro_batch_size};
    auto& entry = entries_[key];
    if (!entry) {
      entry = std::make_unique<Entry>(Entry{memory_costs(job), time_costs(job, cluster_)});
    }
    return *entry;
  }

  const ModelCounts& counts(const TrainJob& job) {
    auto& entry = counts_[{job.layout.tp, job.layout.ep}];
    if (!entry) {
      entry = std::make_unique<ModelCounts>(section_counts(job));
    }
    return *entry;
  }

 private:
  using Key = std::tuple<int, int, int, bool, int, int64_t>;

  const Cluster& cluster_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
  std::map<std::pair<int, int>, std::unique_ptr<ModelCounts>> counts_;
};

class Worker {
 public:
  Worker(const SearchRequest& request, const Cluster& cluster)
      : request_(request),
        cluster_(cluster),
        capacity_(cluster.chip.usable_bytes()),
        cache_(cluster) {}

  // Looks at every layout of one block of the space.
  void run(const SpaceBlock& block) {
    for_each_layout(
        request_, block, [this](TrainJob& job) { look(job); }, counts_);
  }

  std::vector<Survivor> survivors;
  std::optional<Survivor> nearest;  // peak: bytes above the capacity
  const SearchCounts& counts() const { return counts_; }

 private:
  void look(TrainJob& job) {
    const CostCache::Entry& costs = cache_.costs(job);
    StageSplit split = stage_split(job, cache_.counts(job));
    split.capacity = capacity_;
    double excess = over(job, costs.memory, split);
    if (excess > 0 && job.layout.recompute == Recompute::kFull && job.recompute_layers >= 0) {
      excess = fit_recompute(job, costs.memory, split);
    }
    if (excess > 0) {
      ++counts_.pruned_memory;
      if (!nearest || excess < nearest->peak) {
        nearest = Survivor{job, 0, excess};
      }
      return;
    }
    const TimeParts parts = time_parts(job, cluster_, costs.time, split);
    survivors.push_back({job, step_lower_bound(job, parts), capacity_ + excess, 0});
  }

  // Bytes by which the worst stage's likely peak misses the capacity (negative: room left).
  double over(const TrainJob& job, const MemoryCosts& costs, const StageSplit& split) const {
    double worst = -capacity_;
    if (job.stack == Stack::kPlait) {
      for (const StageMemoryPlan& plan : estimate_job_memory(job, cluster_.chip)) {
        worst = std::max(worst, plan.peak.best - capacity_);
      }
      return worst;
    }
    // With equal stages the first holds the most micro-batches and the embedding, the last the
    // logits.
    const int last = job.layout.pp - 1;
    const bool equal = job.layout.stage_layers.empty() && job.model.moe.first_dense_layers == 0;
    for (int stage = 0; stage <= last; stage += equal ? std::max(1, last) : 1) {
      const StageMemoryPlan plan = plan_stage_memory(job, costs, split, stage);
      worst = std::max(worst, plan.peak.best - capacity_);
    }
    return worst;
  }

  // Fewest recomputed layers that make it fit, the same on every virtual stage.
  double fit_recompute(TrainJob& job, const MemoryCosts& costs, const StageSplit& split) const {
    int64_t most = 0;
    for (const StageLayers& l : split.layers) {
      most = std::max(most, l.dense + l.moe);
    }
    int64_t low = job.recompute_layers, high = most;
    job.recompute_layers = high;
    double excess = over(job, costs, split);
    if (excess > 0) {
      return excess;
    }
    while (low + 1 < high) {
      job.recompute_layers = (low + high) / 2;
      const double there = over(job, costs, split);
      if (there > 0) {
        low = job.recompute_layers;
      } else {
        high = job.recompute_layers;
        excess = there;
      }
    }
    job.recompute_layers = high;
    return excess;
  }

  const SearchRequest& request_;
  const Cluster& cluster_;
  double capacity_;
  CostCache cache_;
  SearchCounts counts_;
};

double rank_value(const SearchRequest& request, const Candidate& candidate) {
  return request.goal == Goal::kMemory ? candidate.estimate.worst_stage().peak.best
                                       : candidate.estimate.time.step.best;
}

// Best first; equal ones in the order of their descriptions, so that threads change nothing.
void keep_best(const SearchRequest& request, std::vector<Candidate>& best) {
  std::sort(best.begin(), best.end(), [&](const Candidate& a, const Candidate& b) {
    const double x = rank_value(request, a);
    const double y = rank_value(request, b);
    return x != y ? x < y : describe_layout(a.job) < describe_layout(b.job);
  });
  if (best.size() > static_cast<size_t>(request.top)) {
    best.resize(static_cast<size_t>(request.top));
  }
}

// Simulates in the order of the bounds, in batches whose size does not depend on the threads, until
// no bound can enter the top.
void simulate(const SearchRequest& request, const Cluster& cluster, ThreadPool& pool,
              std::vector<Survivor>& survivors, SearchResult& result) {
  const bool by_memory = request.goal == Goal::kMemory;
  std::sort(survivors.begin(), survivors.end(), [&](const Survivor& a, const Survivor& b) {
    const double x = by_memory ? a.peak : a.bound;
    const double y = by_memory ? b.peak : b.bound;
    return x != y ? x < y : describe_layout(a.job) < describe_layout(b.job);
  });
  constexpr size_t kBatch = 32;
  for (size_t begin = 0; begin < survivors.size(); begin += kBatch) {
    const bool full = result.best.size() == static_cast<size_t>(request.top);
    const double next = by_memory ? survivors[begin].peak : survivors[begin].bound;
    if (request.prune && full && next > rank_value(request, result.best.back())) {
      result.counts.pruned_bound = static_cast<int64_t>(survivors.size() - begin);
      break;
    }
    const size_t count = std::min(kBatch, survivors.size() - begin);
    std::vector<Candidate> batch(count);
    pool.parallel_for(static_cast<int64_t>(count), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Candidate& candidate = batch[static_cast<size_t>(i)];
        candidate.job = survivors[begin + static_cast<size_t>(i)].job;
        candidate.estimate = estimate_job(candidate.job, cluster);
      }
    });
    result.counts.simulated += static_cast<int64_t>(count);
    for (size_t i = 0; request.scatter > 0 && i < count; ++i) {
      survivors[begin + i].simulated = batch[i].estimate.time.step.best;
    }
    result.best.insert(result.best.end(), std::make_move_iterator(batch.begin()),
                       std::make_move_iterator(batch.end()));
    keep_best(request, result.best);
  }
}

std::vector<ScatterPoint> scatter_points(const SearchRequest& request,
                                         const std::vector<Survivor>& survivors) {
  std::vector<ScatterValue> values;
  for (const Survivor& survivor : survivors) {
    values.push_back({survivor.peak, survivor.simulated > 0 ? survivor.simulated : survivor.bound});
  }
  std::vector<ScatterPoint> points;
  for (const ScatterChoice& choice : choose_scatter(values, static_cast<size_t>(request.scatter))) {
    const Survivor& survivor = survivors[choice.index];
    const ScatterValue& value = values[choice.index];
    points.push_back({value.peak_bytes, value.seconds, survivor.simulated > 0, choice.frontier,
                      describe_layout(survivor.job)});
  }
  return points;
}

}  // namespace

std::string stage_layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t first = 0; first < layers.size();) {
    size_t end = first + 1;
    while (end < layers.size() && layers[end] == layers[first]) {
      ++end;
    }
    text += (first == 0 ? "" : ",") + std::to_string(layers[first]);
    if (end - first > 1) {
      text += "x" + std::to_string(end - first);
    }
    first = end;
  }
  return text;
}

std::string describe_layout(const TrainJob& job) {
  std::string text = to_string(job.layout) + fmt::format(" mb{}", job.batch.micro_batch_size);
  if (job.layout.recompute == Recompute::kFull) {
    const Layout& l = job.layout;
    const int64_t chunks = int64_t{l.pp} * l.vpp;
    const bool all =
        job.recompute_layers < 0 ||
        (l.stage_layers.empty() && job.recompute_layers * chunks >= job.model.num_layers);
    text += all ? " recompute=full"
                : fmt::format(" recompute={} of a {}stage's layers", job.recompute_layers,
                              l.vpp > 1 ? "virtual " : "");
  } else if (job.layout.recompute == Recompute::kSelective) {
    text += " recompute=selective";
  }
  if (job.pp_before_dp) {
    text += " pp-before-dp";
  }
  if (!job.layout.stage_layers.empty()) {
    text += " layers=" + stage_layers_text(job.layout.stage_layers);
  }
  return text;
}

SearchResult search_layouts(const SearchRequest& request) {
  const double begin = now_s();
  const Cluster cluster = with_devices(request.cluster, request.devices);
  check_fixed(request, cluster);
  const std::vector<SpaceBlock> blocks = search_blocks(request, cluster);
  const int threads = request.threads > 0
                          ? request.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ThreadPool pool({.num_threads = threads, .spin_us = 0});
  std::vector<Worker> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back(request, cluster);
  }
  pool.run([&](int thread) {
    for (size_t b = static_cast<size_t>(thread); b < blocks.size();
         b += static_cast<size_t>(threads)) {
      workers[static_cast<size_t>(thread)].run(blocks[b]);
    }
  });
  SearchResult result;
  std::vector<Survivor> survivors;
  std::optional<Survivor> nearest;
  for (Worker& worker : workers) {
    result.counts.enumerated += worker.counts().enumerated;
    result.counts.invalid += worker.counts().invalid;
    result.counts.pruned_memory += worker.counts().pruned_memory;
    std::move(worker.survivors.begin(), worker.survivors.end(), std::back_inserter(survivors));
    if (worker.nearest &&
        (!nearest || worker.nearest->peak < nearest->peak ||
         (worker.nearest->peak == nearest->peak &&
          describe_layout(worker.nearest->job) < describe_layout(nearest->job)))) {
      nearest = std::move(worker.nearest);
    }
  }
  result.counts.enumerate_seconds = now_s() - begin;
  simulate(request, cluster, pool, survivors, result);
  if (request.scatter > 0) {
    result.scatter = scatter_points(request, survivors);
  }
  if (result.best.empty() && nearest) {
    result.nearest = Candidate{nearest->job, estimate_job(nearest->job, cluster)};
  }
  if (!result.best.empty()) {
    result.neighbours = compare_neighbours(request, cluster, result.best.front());
  }
  result.counts.seconds = now_s() - begin;
  return result;
}

}  // namespace plait
