#include "plan/check_proposal.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/divisors.h"
#include "base/units.h"
#include "plan/check_memory.h"

namespace plait {
namespace {

constexpr int kMaxEdits = 4;
constexpr size_t kMaxTried = 40000;
constexpr size_t kMaxTimed = 300;

// One setting, changed. False: it makes no sense for the job at hand.
using Edit = std::function<bool(TrainJob&)>;
struct EditGroup {
  std::string key;  // a combination changes each key once
  std::vector<Edit> edits;
};

bool has_error(const std::vector<JobProblem>& problems, std::initializer_list<const char*> keys) {
  return std::any_of(problems.begin(), problems.end(), [&](const JobProblem& problem) {
    return problem.severity == Severity::kError &&
           std::find(keys.begin(), keys.end(), problem.key) != keys.end();
  });
}

class Search {
 public:
  explicit Search(const ProposalRequest& request) : request_(request), read_(*request.read) {}
  std::optional<Proposal> run();

 private:
  void make_groups();
  void add_degrees();
  void add_memory_edits();
  void add_repairs();
  void add_world_edits();
  void try_edits(const TrainJob& job, size_t first_group, int left);
  bool finish(TrainJob& job) const;
  void consider(TrainJob job);
  std::optional<Proposal> choose();
  template <typename Apply>
  void add(const std::string& key, const std::vector<int64_t>& values, Apply apply) {
    EditGroup group{key, {}};
    for (const int64_t value : values) {
      group.edits.push_back([value, apply](TrainJob& job) { return apply(job, value); });
    }
    groups_.push_back(std::move(group));
  }

  const ProposalRequest& request_;
  const ReadJob& read_;
  int world_ = 0;
  std::vector<EditGroup> groups_;
  size_t tried_ = 0;
  size_t least_changes_ = std::numeric_limits<size_t>::max();
  struct Found {
    TrainJob job;
    int world = 0;
    Fit fit = Fit::kFits;
  };
  std::vector<Found> found_;
};

std::vector<int64_t> powers_of_two(int64_t most) {
  std::vector<int64_t> list;
  for (int64_t d = 1; d <= most; d *= 2) {
    list.push_back(d);
  }
  return list;
}

template <typename Field>
bool set_field(Field& field, int64_t value) {
  if (static_cast<int64_t>(field) == value) {
    return false;
  }
  field = static_cast<Field>(value);
  return true;
}

void Search::add_degrees() {
  const TrainJob& job = read_.job;
  const bool free_stages = job.layout.stage_layers.empty();
  const int64_t chunk = layers_per_virtual_stage(read_);
  add("tp", divisors(world_, 16), [](TrainJob& j, int64_t v) { return set_field(j.layout.tp, v); });
  if (free_stages) {
    add("pp", divisors(world_, 64), [chunk](TrainJob& j, int64_t v) {
      if (!set_field(j.layout.pp, v)) {
        return false;
      }
      // A setting in layers per chunk keeps its value where it divides.
      const int64_t layers = j.model.num_layers;
      if (j.layout.vpp > 1 && chunk > 0 && layers % (v * chunk) == 0) {
        j.layout.vpp = static_cast<int>(layers / (v * chunk));
      }
      if (j.layout.vpp == 1 || v == 1) {
        j.layout.vpp = 1;
        j.layout.schedule = ScheduleKind::kOneFOneB;
      }
      return true;
    });
    if (job.layout.vpp > 1) {
      add("vpp", divisors(std::max<int64_t>(job.model.num_layers / job.layout.pp, 1), 32),
          [](TrainJob& j, int64_t v) {
            if (!set_field(j.layout.vpp, v)) {
              return false;
            }
            j.layout.schedule = v > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
            return true;
          });
    }
  }
  const bool megatron = job.stack == Stack::kMegatron || job.stack == Stack::kMindSpeed;
  if (job.layout.cp > 1 || (megatron && job.batch.seq_len >= 8192)) {
    add("cp", powers_of_two(std::min<int64_t>(world_, 64)),
        [](TrainJob& j, int64_t v) { return set_field(j.layout.cp, v); });
  }
  if (job.model.moe.num_experts > 0 || job.layout.ep > 1) {
    add("ep", divisors(std::max<int64_t>(job.model.moe.num_experts, 1), 512),
        [](TrainJob& j, int64_t v) { return set_field(j.layout.ep, v); });
    add("etp", {1}, [](TrainJob& j, int64_t v) { return set_field(j.etp, v); });
  }
}

void Search::add_memory_edits() {
  const TrainJob& job = read_.job;
  const int most_zero = job.stack == Stack::kDeepSpeed ? 3 : 1;
  std::vector<int64_t> stages;
  for (int zero = 0; zero <= most_zero; ++zero) {
    stages.push_back(zero);
  }
  add("zero", stages, [](TrainJob& j, int64_t v) { return set_field(j.layout.zero, v); });
  add("sp", {0, 1}, [](TrainJob& j, int64_t v) { return set_field(j.layout.sp, v); });
  add("recompute", {1, 2}, [](TrainJob& j, int64_t v) {
    if (static_cast<int64_t>(j.layout.recompute) == v && j.recompute_layers < 0 &&
        j.recompute_layers_of.empty()) {
      return false;
    }
    j.layout.recompute = static_cast<Recompute>(v);
    j.recompute_layers = -1;
    j.recompute_layers_of.clear();
    return true;
  });
  add("micro_batch_size", powers_of_two(std::max<int64_t>(job.batch.micro_batch_size - 1, 1)),
      [](TrainJob& j, int64_t v) { return set_field(j.batch.micro_batch_size, v); });
  if (job.stack == Stack::kDeepSpeed && !job.offload_optimizer) {
    add("offload", {1}, [](TrainJob& j, int64_t) {
      j.offload_optimizer = true;
      return true;
    });
  }
  if (job.pool_bytes > 0 && request_.cluster != nullptr) {
    add("pool", {advised_pool_gib(request_.cluster->chip)}, [](TrainJob& j, int64_t gib) {
      const double bytes = static_cast<double>(gib) * kGiB;
      if (bytes <= j.pool_bytes) {
        return false;
      }
      j.pool_bytes = bytes;
      return true;
    });
  }
}

// An uneven split: first and last stage take what is left over.
bool split_unevenly(TrainJob& job) {
  Layout& layout = job.layout;
  const int64_t layers = job.model.num_layers;
  const int pp = layout.pp;
  if (layout.vpp > 1 || pp < 2 || pp > 512 || layers % pp == 0 || layers < pp) {
    return false;
  }
  const int64_t middle = pp > 2 ? (layers + pp - 1) / pp : 0;
  int64_t rest = layers - middle * (pp - 2);
  int64_t each = middle;
  while (rest < 2 && each > 1) {
    --each;
    rest = layers - each * (pp - 2);
  }
  layout.stage_layers.assign(static_cast<size_t>(pp), each);
  layout.stage_layers.front() = rest - rest / 2;
  layout.stage_layers.back() = rest / 2;
  return rest >= 2;
}

void Search::add_repairs() {
  const TrainJob& job = read_.job;
  const auto problems = inspect_job(job, read_.world_size);
  // Does something only where the degrees leave a rest.
  add("global_batch_size", {-1, 1}, [world = world_](TrainJob& j, int64_t direction) {
    const bool interleaved = j.layout.schedule == ScheduleKind::kInterleaved;
    const int64_t dp = world / (static_cast<int64_t>(j.layout.tp) * j.layout.pp * j.layout.cp);
    const int64_t unit = j.batch.micro_batch_size * dp * (interleaved ? j.layout.pp : 1);
    const int64_t batch = j.batch.global_batch_size;
    if (unit < 1 || batch % unit == 0) {
      return false;
    }
    j.batch.global_batch_size = direction < 0 ? batch / unit * unit : (batch / unit + 1) * unit;
    return j.batch.global_batch_size > 0;
  });
  if (has_error(problems, {"seq_len"})) {
    add("seq_len", {-1, 1}, [](TrainJob& j, int64_t direction) {
      const int64_t tp = j.layout.sp ? j.layout.tp : 1;
      const int64_t unit = j.layout.cp > 1 ? j.layout.cp * std::lcm<int64_t>(2, tp) : tp;
      int64_t seq = j.batch.seq_len;
      const int64_t most = j.model.max_position_embeddings;
      if (most > 0 && seq > most) {
        seq = most;
      }
      j.batch.seq_len =
          direction < 0 || seq % unit == 0 ? seq / unit * unit : (seq / unit + 1) * unit;
      return j.batch.seq_len > 0;
    });
  }
  if (has_error(problems, {"stage_layers"}) || job.layout.stage_layers.empty()) {
    EditGroup group{"stage_layers", {}};
    if (!job.layout.stage_layers.empty()) {
      group.edits.push_back([](TrainJob& j) {
        j.layout.stage_layers.clear();
        return true;
      });
    }
    group.edits.push_back([](TrainJob& j) {
      j.layout.stage_layers.clear();
      return split_unevenly(j);
    });
    groups_.push_back(std::move(group));
  }
  if (has_error(problems, {"experts_per_token"})) {
    add("experts_per_token", {std::min<int64_t>(2, job.model.moe.num_experts)},
        [](TrainJob& j, int64_t v) { return set_field(j.model.moe.experts_per_token, v); });
  }
}

void Search::make_groups() {
  groups_.clear();
  add_degrees();
  add_memory_edits();
  add_repairs();
}

// Recomputation that is listed by virtual stage: the same layers recompute under the new split.
// Without an old split that holds, all of them do.
void fit_recompute_lists(const TrainJob& before, TrainJob& after) {
  const auto stages_of = [](const TrainJob& job) {
    return static_cast<size_t>(job.layout.num_virtual_stages());
  };
  const auto split = [](const TrainJob& job) {
    return split_layers(job.layout, job.model.num_layers);
  };
  if (after.recompute_layers_of.empty() ||
      (before.layout.pp == after.layout.pp && before.layout.vpp == after.layout.vpp)) {
    return;
  }
  const std::vector<int64_t> listed = std::move(after.recompute_layers_of);
  after.recompute_layers_of.clear();
  if (!before.layout.stage_layers.empty() || listed.size() != stages_of(before) ||
      before.model.num_layers % static_cast<int64_t>(listed.size()) != 0) {
    return;
  }
  std::vector<bool> recomputes(static_cast<size_t>(before.model.num_layers));
  const std::vector<LayerRange> old_ranges = split(before);
  for (size_t v = 0; v < old_ranges.size(); ++v) {
    const auto begin = recomputes.begin() + old_ranges[v].begin;
    std::fill_n(begin, std::min(listed[v], old_ranges[v].end - old_ranges[v].begin), true);
  }
  for (const LayerRange& range : split(after)) {
    after.recompute_layers_of.push_back(
        std::count(recomputes.begin() + range.begin, recomputes.begin() + range.end, true));
  }
}

// dp is what is left of the world.
bool Search::finish(TrainJob& job) const {
  const int64_t others = static_cast<int64_t>(job.layout.tp) * job.layout.pp * job.layout.cp;
  if (others > world_ || world_ % others != 0) {
    return false;
  }
  job.layout.dp = static_cast<int>(world_ / others);
  if (job.layout.tp == 1 && job.layout.sp && read_.job.layout.tp > 1) {
    job.layout.sp = false;
  }
  return true;
}

void Search::consider(TrainJob job) {
  if (++tried_ > kMaxTried || !finish(job) || !find_job_problems(job, world_).empty()) {
    return;
  }
  fit_recompute_lists(read_.job, job);
  const size_t changes = changed_settings(read_, job).size() + (world_ == read_.world_size ? 0 : 1);
  if (changes > least_changes_) {
    return;
  }
  Fit fit = Fit::kFits;
  if (request_.cluster != nullptr && read_.has_model) {
    fit = judge_memory(job, request_.cluster->chip).fit;
  }
  if (fit == Fit::kDoesNotFit) {
    return;
  }
  if (changes < least_changes_) {
    least_changes_ = changes;
    found_.clear();
  }
  found_.push_back({std::move(job), world_, fit});
}

void Search::try_edits(const TrainJob& job, size_t first_group, int left) {
  if (left == 0) {
    consider(job);
    return;
  }
  for (size_t g = first_group; g < groups_.size() && tried_ <= kMaxTried; ++g) {
    for (const Edit& edit : groups_[g].edits) {
      TrainJob next = job;
      if (edit(next)) {
        try_edits(next, g + 1, left - 1);
      }
    }
  }
}

// How far the degrees are from those that were read.
double distance(const ReadJob& read, const TrainJob& job) {
  const Layout &a = read.job.layout, &b = job.layout;
  const std::pair<double, double> values[] = {
      {a.tp, b.tp}, {a.pp, b.pp},   {a.cp, b.cp},
      {a.ep, b.ep}, {a.vpp, b.vpp}, {read.job.batch.micro_batch_size, job.batch.micro_batch_size}};
  double sum = a.stage_layers == b.stage_layers ? 0 : 0.5;
  for (const auto& [before, after] : values) {
    sum += std::abs(std::log2(std::max(before, 1.0) / std::max(after, 1.0)));
  }
  return sum;
}

// What is trained stays the same.
bool keeps_batch(const ReadJob& read, const TrainJob& job) {
  return read.job.batch.global_batch_size == job.batch.global_batch_size &&
         read.job.batch.seq_len == job.batch.seq_len;
}

int whole_servers(const Cluster& cluster, int devices) {
  const int per_server = cluster.devices_per_server;
  return devices <= per_server ? devices : (devices + per_server - 1) / per_server * per_server;
}

std::optional<Proposal> Search::choose() {
  if (found_.empty()) {
    return std::nullopt;
  }
  // What fits for sure comes before what may; without a time, what is near before what is far.
  std::stable_sort(found_.begin(), found_.end(), [&](const Found& a, const Found& b) {
    const bool a_batch = keeps_batch(read_, a.job), b_batch = keeps_batch(read_, b.job);
    return a.fit != b.fit       ? a.fit < b.fit
           : a_batch != b_batch ? a_batch
                                : distance(read_, a.job) < distance(read_, b.job);
  });
  const Fit best_fit = found_.front().fit;
  const bool best_keeps = keeps_batch(read_, found_.front().job);
  const bool timed = request_.cluster != nullptr && read_.has_model;
  const Found* best = &found_.front();
  double best_rate = -1;
  double best_seconds = 0;
  size_t looked = 0;
  for (const Found& one : found_) {
    if (one.fit != best_fit || keeps_batch(read_, one.job) != best_keeps || !timed ||
        ++looked > kMaxTimed) {
      break;
    }
    const Cluster cluster =
        with_devices(*request_.cluster, whole_servers(*request_.cluster, one.world));
    const Estimate estimate = estimate_job(one.job, cluster);
    if (estimate.tokens_per_second_per_device > best_rate) {
      best_rate = estimate.tokens_per_second_per_device;
      best_seconds = estimate.time.step.best;
      best = &one;
    }
  }
  Proposal proposal;
  proposal.job = best->job;
  proposal.step_seconds = best_seconds;
  proposal.changes = changed_settings(read_, best->job);
  if (best->world != read_.world_size) {
    const auto setting = read_.settings.find("world_size");
    const SourceLine where =
        setting == read_.settings.end() ? SourceLine{read_.origin, 0} : setting->second.where;
    proposal.changes.push_back({"world_size", "number of devices", std::to_string(read_.world_size),
                                std::to_string(best->world), where});
  }
  return proposal;
}

// The same degrees on another number of devices: the next multiples.
void Search::add_world_edits() {
  const Layout& layout = read_.job.layout;
  const int64_t unit = static_cast<int64_t>(layout.tp) * layout.pp * layout.cp;
  const int64_t up = (read_.world_size / unit + 1) * unit;
  if (up > kMaxRanks) {
    return;
  }
  world_ = static_cast<int>(up);
  consider(read_.job);
}

std::optional<Proposal> Search::run() {
  world_ = read_.world_size;
  for (int edits = 0; edits <= kMaxEdits && found_.empty(); ++edits) {
    make_groups();
    try_edits(read_.job, 0, edits);
    if (edits == 1 && found_.empty()) {
      add_world_edits();
      world_ = read_.world_size;
    }
  }
  std::optional<Proposal> proposal = choose();
  if (proposal) {
    for (const CheckProblem& problem : request_.fixed) {
      const std::string first = problem.suggestion.substr(0, problem.suggestion.find(", or "));
      proposal->changes.push_back({problem.key, problem.key, problem.value, first, problem.where});
    }
  }
  return proposal;
}

}  // namespace

std::optional<Proposal> find_proposal(const ProposalRequest& request) {
  return Search(request).run();
}

}  // namespace plait
