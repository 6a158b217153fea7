#include "spec/memory_walk.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"
#include "spec/activation_table.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t saturating_sum(int64_t a, int64_t b) {
  return a > kMost - b ? kMost : a + b;
}

// Bytes of the tensors that one micro-batch needs. T, Ts, D: tensor/tensor.h.
struct Sizes {
  explicit Sizes(const MemoryRequest& request) {
    const ModelConfig& model = request.model;
    const Layout& layout = request.layout;
    const int64_t element = dtype_size(request.compute_dtype);
    tokens = request.batch.micro_batch_size * request.batch.seq_len;
    split_tokens = layout.sp && layout.tp > 1;
    const int64_t local_tokens = split_tokens ? tokens / layout.tp : tokens;
    whole_hidden = tokens * model.hidden_size * element;
    hidden = local_tokens * model.hidden_size * element;
    head_rstd = local_tokens * dtype_size(DType::kF32);
    const TableOptions options{.tp = layout.tp, .vocab_multiple = request.vocab_multiple};
    const ParamSpec head = make_parameter_table(with_layers(model, 0), options).front();
    logits = tokens * (head.padded_rows / layout.tp) * element;
    for (const SavedTensor& saved :
         layer_saved_tensors(model, layout, {.tokens = tokens, .dtype = request.compute_dtype})) {
      (saved.kept ? kept : dropped) += saved.bytes();
      if (saved.id == Saved::kAttention) {
        attention = saved.bytes();
      } else if (saved.id == Saved::kQkv) {
        qkv = saved.bytes();
      } else if (saved.id == Saved::kLse) {
        lse = saved.bytes();
      }
    }
    full_recompute = layout.recompute == Recompute::kFull;
  }

  static ModelConfig with_layers(ModelConfig model, int64_t layers) {
    model.num_layers = layers;
    return model;
  }

  bool split_tokens = false;  // sequence parallelism
  bool full_recompute = false;
  int64_t tokens = 0;             // T
  int64_t whole_hidden = 0;       // [T, D]
  int64_t hidden = 0;             // [Ts, D]
  int64_t head_rstd = 0;          // f32 [Ts]
  int64_t logits = 0;             // [T, padded V / tp]
  int64_t kept = 0, dropped = 0;  // of a layer, the input included
  int64_t attention = 0, qkv = 0, lse = 0;
};

// The allocations of one stage's chunks, as model/transformer.cc and model/transformer_layer.cc
// make them.
class StageWalk {
 public:
  StageWalk(const MemoryRequest& request, const Sizes& sizes, int stage, MemoryCount& count)
      : sizes_(sizes), count_(count) {
    workspace(4);  // the loss
    // Masters are set through a staging piece of ShardedAdamw::set_weights.
    if (request.compute_dtype != DType::kF32) {
      workspace_touch(int64_t{4} << 20);
    }
    const Layout& layout = request.layout;
    const std::vector<LayerRange> ranges = split_layers(layout, request.model.num_layers);
    const int64_t ids = request.batch.num_microbatches(layout) * sizes.tokens * 4;
    for (int chunk = 0; chunk < layout.vpp; ++chunk) {
      const int virtual_stage = chunk * layout.pp + stage;
      chunks_.push_back({ranges[static_cast<size_t>(virtual_stage)].count(), virtual_stage == 0,
                         virtual_stage == layout.num_virtual_stages() - 1});
      // Token ids on the first, targets on the last, of all micro-batches.
      activation(chunks_.back().first ? ids : 0);
      activation(chunks_.back().last ? ids : 0);
    }
  }

  void receive() { activation(sizes_.hidden); }
  void sent() { count_.free(MemoryPart::kActivations, sizes_.hidden); }

  void forward(int index) {
    const Chunk& chunk = chunks_[static_cast<size_t>(index)];
    if (chunk.first) {
      kept_sum();
    }
    for (int64_t layer = 0; layer < chunk.layers; ++layer) {
      activation(sizes_.kept - sizes_.hidden);
      workspace(sizes_.dropped);
      fill_layer();
      kept_sum();
      workspace_free(sizes_.dropped);
    }
    if (chunk.last) {
      head();
    }
  }

  void backward(int index) {
    const Chunk& chunk = chunks_[static_cast<size_t>(index)];
    for (int64_t layer = 0; layer < chunk.layers; ++layer) {
      workspace(sizes_.dropped);
      if (sizes_.full_recompute) {
        fill_layer();
      }
      backward_mlp();
      backward_attention();
      count_.free(MemoryPart::kActivations, sizes_.kept);
      workspace_free(sizes_.dropped);
    }
    if (chunk.first) {
      gather_touch();
      sent();  // the gradient ends here
    }
  }

 private:
  struct Chunk {
    int64_t layers = 0;
    bool first = false;
    bool last = false;
  };

  void activation(int64_t bytes) { count_.add(MemoryPart::kActivations, bytes); }
  void workspace(int64_t bytes) { count_.add(MemoryPart::kWorkspace, bytes); }
  void workspace_free(int64_t bytes) { count_.free(MemoryPart::kWorkspace, bytes); }
  void workspace_touch(int64_t bytes) { count_.touch(MemoryPart::kWorkspace, bytes); }

  // A tensor gathered over tokens for the length of one call.
  int64_t gathered() const { return sizes_.split_tokens ? sizes_.whole_hidden : 0; }
  void gather_touch() { workspace_touch(gathered()); }
  // A partial sum and, where tokens are split, this rank's part of the whole.
  int64_t partial_sum() const {
    return sizes_.whole_hidden + (sizes_.split_tokens ? sizes_.hidden : 0);
  }

  // What remains of it.
  int64_t summed() const { return sizes_.split_tokens ? sizes_.hidden : sizes_.whole_hidden; }

  // The output of an embedding or a layer: it stays.
  void kept_sum() {
    if (sizes_.split_tokens) {
      workspace(sizes_.whole_hidden);
      activation(sizes_.hidden);
      workspace_free(sizes_.whole_hidden);
    } else {
      activation(sizes_.hidden);
    }
  }

  void fill_layer() {
    gather_touch();                  // norm 1
    workspace_touch(partial_sum());  // attention output
    gather_touch();                  // norm 2
  }

  // Runs with its own backward; the input goes, the gradient stays.
  void head() {
    const int64_t held = sizes_.head_rstd + sizes_.hidden + gathered() + sizes_.logits;
    workspace(held);
    const int64_t statistics = 3 * sizes_.tokens * dtype_size(DType::kF32);
    workspace_touch(statistics);
    workspace_touch(partial_sum());
    workspace(summed());
    activation(sizes_.hidden);
    workspace_free(summed() + held);
    count_.free(MemoryPart::kActivations, sizes_.hidden);
  }

  void backward_mlp() {
    workspace(gathered());  // output gradient
    gather_touch();         // norm 2
    workspace_touch(partial_sum());
    workspace_free(gathered());
  }

  void backward_attention() {
    const int64_t held = gathered() + sizes_.attention + sizes_.qkv + sizes_.lse;
    workspace(held);
    gather_touch();  // norm 1
    workspace_touch(partial_sum());
    workspace_free(held);
  }

  const Sizes& sizes_;
  MemoryCount& count_;
  std::vector<Chunk> chunks_;
};

// Runs all stages at once, with messages that carry what their sender knows of the others'
// progress, so that each stage learns when its own messages have been taken.
class PipelineWalk {
 public:
  PipelineWalk(const MemoryRequest& request, const std::vector<std::vector<Action>>& schedule,
               SendAssumption assumption, std::vector<MemoryCount>& counts)
      : sizes_(request), schedule_(schedule), pp_(request.layout.pp), assumption_(assumption) {
    CHECK_EQ(schedule.size(), counts.size());
    for (int s = 0; s < pp_; ++s) {
      stages_.push_back({StageWalk(request, sizes_, s, counts[static_cast<size_t>(s)]),
                         0,
                         std::vector<size_t>(static_cast<size_t>(pp_), 0),
                         {},
                         {}});
      const std::vector<Action>& actions = schedule[static_cast<size_t>(s)];
      for (size_t i = 0; i < actions.size(); ++i) {
        if (is_receive(actions[i].kind)) {
          stages_.back().receives[key(actions[i])] = i;
        }
      }
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int stage = 0; stage < pp_; ++stage) {
        while (step(stage)) {
          moved = true;
        }
      }
    }
    for (size_t s = 0; s < stages_.size(); ++s) {
      CHECK_EQ(stages_[s].next, schedule_[s].size());
    }
  }

 private:
  using Knowledge = std::vector<size_t>;  // by stage: actions that it is known to have finished
  using Key = std::tuple<bool, int, int>;
  struct Pending {
    size_t peer = 0;
    size_t receive = 0;  // the peer's action that takes it
  };
  struct Stage {
    StageWalk walk;
    size_t next = 0;
    Knowledge known;
    std::map<Key, size_t> receives;  // place of each receive in the list
    std::vector<Pending> pending;
  };

  static bool is_receive(ActionKind kind) {
    return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
  }
  static bool is_send(ActionKind kind) {
    return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
  }
  static bool is_forward(ActionKind kind) {
    return kind == ActionKind::kSendForward || kind == ActionKind::kRecvForward;
  }
  static Key key(const Action& action) {
    return {is_forward(action.kind), action.chunk, action.microbatch};
  }

  void send(int stage, const Action& action) {
    const bool forward = is_forward(action.kind);
    const int virtual_stage = action.chunk * pp_ + stage + (forward ? 1 : -1);
    const auto peer = static_cast<size_t>(virtual_stage % pp_);
    Stage& self = stages_[static_cast<size_t>(stage)];
    self.known[static_cast<size_t>(stage)] = self.next;
    const Key arrival = {forward, virtual_stage / pp_, action.microbatch};
    messages_[peer][arrival] = self.known;
    if (assumption_ == SendAssumption::kTakenAtOnce) {
      self.walk.sent();
    } else {
      self.pending.push_back({peer, stages_[peer].receives.at(arrival)});
    }
  }

  bool receive(int stage, const Action& action) {
    auto& inbox = messages_[static_cast<size_t>(stage)];
    const auto found = inbox.find(key(action));
    if (found == inbox.end()) {
      return false;
    }
    Stage& self = stages_[static_cast<size_t>(stage)];
    for (size_t s = 0; s < self.known.size(); ++s) {
      self.known[s] = std::max(self.known[s], found->second[s]);
    }
    inbox.erase(found);
    self.walk.receive();
    return true;
  }

  bool step(int stage) {
    Stage& self = stages_[static_cast<size_t>(stage)];
    const std::vector<Action>& actions = schedule_[static_cast<size_t>(stage)];
    if (self.next == actions.size()) {
      return false;
    }
    const Action& action = actions[self.next];
    if (is_receive(action.kind)) {
      if (!receive(stage, action)) {
        return false;
      }
    } else if (is_send(action.kind)) {
      send(stage, action);
    } else if (action.kind == ActionKind::kForward) {
      self.walk.forward(action.chunk);
    } else if (action.kind == ActionKind::kBackward) {
      self.walk.backward(action.chunk);
    }
    ++self.next;
    std::erase_if(self.pending, [&](const Pending& sent) {
      const bool taken = self.known[sent.peer] > sent.receive;
      if (taken) {
        self.walk.sent();
      }
      return taken;
    });
    return true;
  }

  Sizes sizes_;
  const std::vector<std::vector<Action>>& schedule_;
  int pp_;
  SendAssumption assumption_;
  std::vector<Stage> stages_;
  std::map<size_t, std::map<Key, Knowledge>> messages_;  // by receiver
};

}  // namespace

void MemoryCount::add(MemoryPart part, int64_t bytes) {
  CHECK_GE(bytes, 0);
  const auto i = static_cast<size_t>(part);
  now_[i] = saturating_sum(now_[i], bytes);
  peak_[i] = std::max(peak_[i], now_[i]);
  total_ = saturating_sum(total_, bytes);
  total_peak_ = std::max(total_peak_, total_);
}

void MemoryCount::free(MemoryPart part, int64_t bytes) {
  const auto i = static_cast<size_t>(part);
  // A sum that hit the limit has lost count.
  now_[i] = now_[i] == kMost ? kMost : now_[i] - bytes;
  total_ = total_ == kMost ? kMost : total_ - bytes;
  CHECK_GE(now_[i], 0);
}

void walk_step(const MemoryRequest& request, const std::vector<std::vector<Action>>& schedule,
               SendAssumption assumption, std::vector<MemoryCount>& counts) {
  PipelineWalk(request, schedule, assumption, counts).run();
}

}  // namespace plait
