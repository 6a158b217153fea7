#include "plan/search_space.h"

#include <algorithm>
#include <utility>

#include "base/divisors.h"
#include "base/error.h"
#include "plan/estimate.h"
#include "plan/time_model.h"

namespace plait {
namespace {

std::vector<int64_t> only(int fixed, std::vector<int64_t> all) {
  return fixed > 0 ? std::vector<int64_t>{fixed} : std::move(all);
}

// Layers of each stage such that the slowest stage, the head counted on the last, is as fast as
// whole layers allow. Empty: the even split is the best.
std::vector<int64_t> balanced_split(int64_t layers, int pp, double head_layers) {
  if (pp == 1 || layers < pp) {
    return {};
  }
  std::vector<int64_t> split(static_cast<size_t>(pp), 0);
  for (int64_t l = 0; l < layers; ++l) {
    size_t least = 0;
    double cost = -1;
    // From the back, so that equal stages in front are the fuller ones.
    for (size_t s = split.size(); s-- > 0;) {
      const double here =
          static_cast<double>(split[s]) + (s + 1 == split.size() ? head_layers : 0.0);
      if (cost < 0 || here <= cost) {
        cost = here;
        least = s;
      }
    }
    ++split[least];
  }
  if (split.back() == 0) {
    auto fullest = std::max_element(split.begin(), split.end());
    --*fullest;
    ++split.back();
  }
  const bool even = std::all_of(split.begin(), split.end(),
                                [&](int64_t count) { return count == split.front(); });
  return even ? std::vector<int64_t>{} : split;
}

// The head's products in units of a layer's: logits 2 h V against the layer's matrices.
double head_in_layers(const ModelConfig& model) {
  // Most layers of a sparse model are sparse.
  const MoeConfig& moe = model.moe;
  const int64_t ffn = moe.num_experts > 0
                          ? moe.experts_per_token * moe.ffn_hidden_size + moe.shared_ffn_hidden_size
                          : model.ffn_hidden_size;
  const auto h = static_cast<double>(model.hidden_size);
  const double layer =
      h * static_cast<double>((2 * model.num_heads + 2 * model.num_kv_heads) * model.head_dim) +
      h * static_cast<double>(ffn) * (model.gated_mlp ? 3 : 2);
  return h * static_cast<double>(model.vocab_size) / layer;
}

// The choices inside a block.
class BlockWalker {
 public:
  BlockWalker(const SearchRequest& request, const SpaceBlock& block,
              const std::function<void(TrainJob&)>& look, SearchCounts& counts)
      : request_(request),
        block_(block),
        look_(look),
        counts_(counts),
        job_(request.job),
        orders_differ_(request.devices > request.cluster.devices_per_server &&
                       request.job.stack != Stack::kPlait) {}

  void walk() {
    const ModelConfig& model = request_.job.model;
    const FixedDegrees& fixed = request_.fixed;
    const int dp = request_.devices / (block_.tp * block_.cp * block_.pp);
    if (fixed.dp > 0 && fixed.dp != dp) {
      return;
    }
    const int64_t rows = request_.job.batch.global_batch_size;
    const std::vector<int64_t> ep =
        only(fixed.ep, model.moe.num_experts > 0
                           ? divisors(model.moe.num_experts, int64_t{dp} * block_.cp * block_.tp)
                           : std::vector<int64_t>{1});
    const bool divides = model.num_layers % block_.pp == 0;
    const std::vector<int64_t> vpp =
        only(fixed.vpp, block_.pp > 1 && divides ? divisors(model.num_layers / block_.pp, 16)
                                                 : std::vector<int64_t>{1});
    for (const int64_t e : ep) {
      for (const int64_t v : vpp) {
        for (int64_t mb = 1; mb <= rows; mb *= 2) {
          const int64_t micro = fixed.micro_batch > 0 ? fixed.micro_batch : mb;
          layout(dp, static_cast<int>(e), static_cast<int>(v), micro);
          if (fixed.micro_batch > 0) {
            break;
          }
        }
      }
    }
  }

 private:
  void layout(int dp, int ep, int vpp, int64_t micro_batch) {
    Layout& l = job_.layout;
    l = {};
    l.dp = dp;
    l.tp = block_.tp;
    l.pp = block_.pp;
    l.cp = block_.cp;
    l.ep = ep;
    l.vpp = vpp;
    l.schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
    job_.batch.micro_batch_size = micro_batch;
    const bool valid = rules_hold();
    for (const bool sp : {false, true}) {
      if (request_.fixed.sp && *request_.fixed.sp != sp) {
        continue;
      }
      for (int zero = 0; zero <= most_zero(); ++zero) {
        if (request_.fixed.zero >= 0 && request_.fixed.zero != zero) {
          continue;
        }
        l.sp = sp;
        l.zero = zero;
        const bool here = valid && (!sp || l.tp > 1) && (zero == 0 || dp * l.cp > 1) &&
                          (!sp || (request_.job.batch.seq_len / l.cp) % l.tp == 0) &&
                          (zero < 2 || l.pp == 1);
        recompute(here);
      }
    }
  }

  int most_zero() const { return request_.job.stack == Stack::kDeepSpeed ? 3 : 1; }

  void recompute(bool valid) {
    for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      if (request_.fixed.recompute && *request_.fixed.recompute != mode) {
        continue;
      }
      // Fused attention stores no scores: there is nothing to select.
      const bool useful = mode != Recompute::kSelective || !request_.job.flash_attention ||
                          request_.job.stack == Stack::kPlait;
      job_.layout.recompute = mode;
      splits(valid && useful);
    }
  }

  void splits(bool valid) {
    const Layout& l = job_.layout;
    const int64_t layers = request_.job.model.num_layers;
    ++counts_.enumerated;
    if (!valid) {
      ++counts_.invalid;
      return;
    }
    if (layers % (l.pp * l.vpp) == 0) {
      offer({});
    }
    if (l.vpp == 1 && l.pp > 1) {
      const std::vector<int64_t> split =
          balanced_split(layers, l.pp, head_in_layers(request_.job.model));
      if (!split.empty()) {
        offer(split);
      }
    }
  }

  // Full recomputation is tried for as few layers as fit, and for all.
  void offer(const std::vector<int64_t>& split) {
    TrainJob job = job_;
    job.layout.stage_layers = split;
    const bool block = job.layout.recompute == Recompute::kFull && job.stack != Stack::kPlait &&
                       job.stack != Stack::kDeepSpeed;
    job.recompute_layers = block ? 1 : -1;
    job.pp_before_dp = false;
    look_(job);
    // Megatron's expert groups lie across replicas: with ep, pp must be outermost.
    if (orders_differ_ && job.layout.pp > 1 && job.layout.dp > 1 && job.layout.ep == 1 &&
        order_matters(job.layout)) {
      ++counts_.enumerated;
      job = job_;
      job.layout.stage_layers = split;
      job.recompute_layers = block ? 1 : -1;
      job.pp_before_dp = true;
      look_(job);
    }
  }

  // Replicas that fill whole servers are as far apart in either order, and so are stages.
  bool order_matters(const Layout& l) const {
    return l.tp * l.cp < request_.cluster.devices_per_server;
  }

  bool rules_hold() const {
    const Layout& l = job_.layout;
    const ModelConfig& m = request_.job.model;
    const BatchConfig& b = job_.batch;
    const int64_t rows = b.micro_batch_size * l.dp;
    if (b.global_batch_size % rows != 0) {
      return false;
    }
    const int64_t micro_batches = b.global_batch_size / rows;
    if (l.vpp > 1 && (micro_batches % l.pp != 0 || l.pp < 2)) {
      return false;
    }
    if (m.num_layers < l.pp * l.vpp) {
      return false;
    }
    if (l.ep > 1 && (int64_t{l.dp} * l.cp * l.tp) % l.ep != 0) {
      return false;
    }
    return true;
  }

  const SearchRequest& request_;
  const SpaceBlock& block_;
  const std::function<void(TrainJob&)>& look_;
  SearchCounts& counts_;
  TrainJob job_;
  // The order of ranks decides what crosses servers only where there are several.
  bool orders_differ_ = false;
};

}  // namespace

void check_fixed(const SearchRequest& request, const Cluster& cluster) {
  const FixedDegrees& f = request.fixed;
  const int64_t product =
      int64_t{std::max(1, f.tp)} * std::max(1, f.pp) * std::max(1, f.cp) * std::max(1, f.dp);
  if (request.devices < 1) {
    throw_error(ErrorCode::kInvalidArgument, "devices={}: at least 1 is needed", request.devices);
  }
  if (request.devices % product != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "fixed degrees tp x pp x cp x dp = {} do not divide {} devices", product,
                request.devices);
  }
  const ModelConfig& model = request.job.model;
  if (model.position == PositionType::kLearned && model.max_position_embeddings > 0 &&
      request.job.batch.seq_len > model.max_position_embeddings) {
    throw_error(ErrorCode::kInvalidArgument,
                "seq={}: the model's learned position table has {} rows; use --seq {}",
                request.job.batch.seq_len, model.max_position_embeddings,
                model.max_position_embeddings);
  }
  check_chip(request.job, cluster.chip);
  const int64_t heads = model.num_heads;
  if (f.tp > 0 && heads % f.tp != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "tp={}: the model's {} attention heads are not divisible by it", f.tp, heads);
  }
  const int most = request.max_tp > 0 ? request.max_tp : cluster.devices_per_server;
  if (f.tp > 0 && request.max_tp > 0 && f.tp > most) {
    throw_error(ErrorCode::kInvalidArgument, "tp={} is fixed, but max_tp is {}", f.tp, most);
  }
}

std::vector<SpaceBlock> search_blocks(const SearchRequest& request, const Cluster& cluster) {
  const ModelConfig& model = request.job.model;
  const FixedDegrees& fixed = request.fixed;
  const int most_tp = request.max_tp > 0 ? request.max_tp : cluster.devices_per_server;
  std::vector<SpaceBlock> blocks;
  for (const int64_t wide_tp : only(fixed.tp, divisors(model.num_heads, most_tp))) {
    const int tp = static_cast<int>(wide_tp);
    const bool kv = model.num_kv_heads % tp == 0 || tp % model.num_kv_heads == 0;
    if (request.devices % tp != 0 || !kv || model.ffn_hidden_size % tp != 0) {
      continue;
    }
    for (const int64_t wide_pp : only(fixed.pp, divisors(request.devices / tp, model.num_layers))) {
      const int pp = static_cast<int>(wide_pp);
      if (request.devices % (tp * pp) != 0) {
        continue;
      }
      const int rest = request.devices / (tp * pp);
      for (int cp = std::max(1, fixed.cp); cp <= rest; cp = fixed.cp > 0 ? rest + 1 : 2 * cp) {
        const bool whole = rest % cp == 0 && request.job.batch.seq_len % (2 * cp) == 0;
        // Shorter pieces than this leave the ring's messages uncovered.
        const bool long_enough = cp == 1 || fixed.cp > 0 || request.job.batch.seq_len / cp >= 2048;
        const bool heads =
            request.job.cp_algorithm == CpAlgorithm::kRing || (model.num_heads / tp) % cp == 0;
        if ((cp == 1 || (whole && heads)) && long_enough) {
          blocks.push_back({tp, cp, pp});
        }
      }
    }
  }
  return blocks;
}

void for_each_layout(const SearchRequest& request, const SpaceBlock& block,
                     const std::function<void(TrainJob&)>& look, SearchCounts& counts) {
  BlockWalker(request, block, look, counts).walk();
}

}  // namespace plait
