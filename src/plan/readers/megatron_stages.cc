// How Megatron-LM's flags split the layers over the pipeline: no layer is dropped without a word.
#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"
#include "plan/readers/megatron_reader.h"

namespace plait {
namespace {

constexpr const char* kStageArguments = "Megatron-LM megatron/training/arguments.py, validate_args";
constexpr const char* kBlock =
    "Megatron-LM megatron/core/transformer/transformer_block.py, get_num_layers_to_build";
constexpr int64_t kMaxStages = 1 << 16;

std::vector<int64_t> parse_list(const std::string& text) {
  std::vector<int64_t> numbers;
  size_t at = 0;
  while (at <= text.size() && numbers.size() < static_cast<size_t>(kMaxStages)) {
    const size_t end = std::min(text.find(',', at), text.size());
    const auto number = parse_integer(text.substr(at, end - at));
    if (!number || *number < 0) {
      return {};
    }
    numbers.push_back(*number);
    at = end + 1;
  }
  return numbers;
}

// Stages of "Et*3|(tt|)*2,m|L": layers of each virtual stage. Empty if it is no such text.
std::vector<int64_t> parse_stage_layout(const std::string& text) {
  std::string flat;
  const auto repeat = [&](const std::string& unit, size_t& at) {
    int64_t times = 1;
    if (at < text.size() && text[at] == '*') {
      size_t end = at + 1;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') {
        ++end;
      }
      times = parse_integer(text.substr(at + 1, end - at - 1)).value_or(0);
      at = end;
    }
    for (int64_t i = 0; i < times && flat.size() < static_cast<size_t>(kMaxStages); ++i) {
      flat += unit;
    }
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == std::string::npos) {
        return {};
      }
      const std::string unit = text.substr(at + 1, close - at - 1);
      if (unit.find_first_of("(*") != std::string::npos) {
        return {};
      }
      at = close + 1;
      repeat(unit, at);
    } else {
      const std::string unit(1, text[at++]);
      repeat(unit, at);
    }
  }
  std::vector<int64_t> counts = {0};
  for (const char c : flat) {
    if (c == '|') {
      counts.push_back(0);
    } else {
      counts.back() += c == 't' ? 1 : 0;
    }
  }
  return counts;
}

}  // namespace

void MegatronReader::read_stages() {
  Layout& layout = out_.job.layout;
  listed_layers_ = out_.job.model.num_layers;
  const bool told = out_.has_model || flags_.has("num-layers");
  if (!told || listed_layers_ < 1) {
    return;
  }
  if (static_cast<int64_t>(layout.pp) > kMaxStages) {
    return;  // refused later by the degrees
  }
  const int64_t first = setting("stage_layers", "decoder-first-pipeline-num-layers", -1, 0);
  const int64_t last = setting("stage_layers", "decoder-last-pipeline-num-layers", -1, 0);
  read_virtual_stages();
  if (flags_.has("pp-partition-method")) {
    read_partition_method();
  }
  if (flags_.has("pipeline-model-parallel-layout")) {
    read_stage_layout();
  } else if (flags_.has("num-layer-list")) {
    read_layer_list();
  } else if (first >= 0 || last >= 0) {
    read_uneven_stages(first, last);
  }
  read_noop_layers();
  if (any({"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"})) {
    const int64_t embedding = flags_.has("account-for-embedding-in-pipeline-split") ? 1 : 0;
    const int64_t loss = flags_.has("account-for-loss-in-pipeline-split") ? 1 : 0;
    const int64_t stages = static_cast<int64_t>(layout.pp) * layout.vpp;
    const int64_t total = listed_layers_ + embedding + loss;
    if (total % stages != 0) {
      problem(Severity::kError,
              embedding > 0 ? "account-for-embedding-in-pipeline-split"
                            : "account-for-loss-in-pipeline-split",
              fmt::format("layers, embedding and loss together ({}) must be a multiple of the {} "
                          "stages",
                          total, stages),
              "leave these flags out, or change --num-layers", kStageArguments);
    } else if (stages <= kMaxStages) {
      layout.stage_layers.assign(static_cast<size_t>(stages), total / stages);
      layout.stage_layers.front() -= embedding;
      layout.stage_layers.back() -= loss;
    }
  }
}

void MegatronReader::read_virtual_stages() {
  Layout& layout = out_.job.layout;
  const int64_t count = setting("vpp", "num-virtual-stages-per-pipeline-rank", 0);
  const int64_t per_chunk = setting("vpp", "num-layers-per-virtual-pipeline-stage", 0);
  if (count > 0) {
    layout.vpp = static_cast<int>(std::min<int64_t>(count, kMaxStages));
  } else if (per_chunk > 0) {
    const int64_t per_stage = listed_layers_ / layout.pp;
    if (listed_layers_ % layout.pp != 0 || per_stage % per_chunk != 0) {
      const int64_t trained = per_stage / per_chunk * per_chunk * layout.pp;
      std::string rule = fmt::format(
          "{} layers on pp = {} stages are {}{} a stage, which chunks of {} do not divide: {} "
          "layers would be trained and {} dropped",
          listed_layers_, layout.pp, per_stage,
          listed_layers_ % layout.pp != 0 ? " and a rest" : "", per_chunk, trained,
          listed_layers_ - trained);
      std::string fitting;
      for (int64_t chunk = per_chunk; chunk > 0 && listed_layers_ % layout.pp == 0; --chunk) {
        if (per_stage % chunk == 0) {
          fitting = fmt::format("--num-layers-per-virtual-pipeline-stage {}, or ", chunk);
          break;
        }
      }
      problem(Severity::kError, "num-layers-per-virtual-pipeline-stage", std::move(rule),
              fmt::format("{}leave it out (no interleaving), or a pp with layers/pp a multiple of "
                          "{}",
                          fitting, per_chunk),
              kStageArguments);
      layout.vpp = 1;
    } else {
      layout.vpp = static_cast<int>(std::min(per_stage / per_chunk, kMaxStages));
    }
  }
  if (layout.vpp > 1) {
    layout.schedule = ScheduleKind::kInterleaved;
  }
}

void MegatronReader::read_uneven_stages(int64_t first, int64_t last) {
  Layout& layout = out_.job.layout;
  const char* flag =
      first >= 0 ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers";
  const int64_t given = std::max<int64_t>(first, 0) + std::max<int64_t>(last, 0);
  const int64_t rest = listed_layers_ - given;
  const int64_t stages = layout.pp - (first >= 0 ? 1 : 0) - (last >= 0 ? 1 : 0);
  if (rest < 0 || (stages <= 0 && rest != 0)) {
    problem(Severity::kError, flag,
            fmt::format("first and last stage hold {} layers, but --num-layers is {}: {} layers "
                        "would be {} without a word",
                        given, listed_layers_, std::abs(rest), rest > 0 ? "ignored" : "missing"),
            layout.pp == 2 && first >= 0
                ? fmt::format("--decoder-last-pipeline-num-layers {}", listed_layers_ - first)
                : "numbers that add up to --num-layers",
            kBlock);
    return;
  }
  if (stages > 0 && rest % stages != 0) {
    const int64_t other = first >= 0 ? first + rest % stages : rest % stages;
    problem(Severity::kError, flag,
            fmt::format("the {} layers between must split evenly over {} stages", rest, stages),
            first >= 0 ? fmt::format("--decoder-first-pipeline-num-layers {}", other)
                       : fmt::format("--decoder-first-pipeline-num-layers {} as well", other),
            kBlock);
    return;
  }
  std::vector<int64_t> per_stage(static_cast<size_t>(layout.pp), stages > 0 ? rest / stages : 0);
  if (first >= 0) {
    per_stage.front() = first;
  }
  if (last >= 0) {
    per_stage.back() = last;
  }
  for (const int64_t count : per_stage) {
    if (count % layout.vpp != 0) {
      problem(Severity::kError, flag,
              fmt::format("each stage's layers ({}) must be a multiple of the {} virtual stages",
                          fmt::join(per_stage, ","), layout.vpp),
              "multiples of the virtual stages on each stage", kBlock);
      return;
    }
  }
  layout.stage_layers.clear();
  for (int chunk = 0; chunk < layout.vpp; ++chunk) {
    for (const int64_t count : per_stage) {
      layout.stage_layers.push_back(count / layout.vpp);
    }
  }
}

// Megatron-DeepSpeed's "type:transformer|embedding": the embedding and the head count as layers.
void MegatronReader::read_partition_method() {
  Layout& layout = out_.job.layout;
  const std::string text = flags_.text("pp-partition-method").value_or("");
  const int64_t parts = out_.job.model.num_layers + 2;
  if (text.find("transformer|embedding") == std::string::npos || layout.pp < 2 ||
      layout.pp > kMaxStages || parts % layout.pp != 0) {
    return;
  }
  mark("stage_layers", "pp-partition-method");
  layout.stage_layers.assign(static_cast<size_t>(layout.pp), parts / layout.pp);
  layout.stage_layers.front() -= 1;
  layout.stage_layers.back() -= 1;
}

// MindSpeed's --num-layer-list 1,2,2,1: layers of each stage.
void MegatronReader::read_layer_list() {
  Layout& layout = out_.job.layout;
  const std::string text = flags_.text("num-layer-list").value_or("");
  mark("stage_layers", "num-layer-list");
  const std::vector<int64_t> counts = parse_list(text);
  if (counts.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: --num-layer-list is {}, but must be numbers such as 7,8,8,7",
                flags_.where("num-layer-list").text(), text.substr(0, 60));
  }
  layout.stage_layers = counts;
}

void MegatronReader::read_stage_layout() {
  Layout& layout = out_.job.layout;
  const std::string text = flags_.text("pipeline-model-parallel-layout").value_or("");
  mark("stage_layers", "pipeline-model-parallel-layout");
  const std::vector<int64_t> counts = parse_stage_layout(text);
  const auto stages = static_cast<int64_t>(counts.size());
  if (counts.empty() || stages > kMaxStages) {
    out_.not_evaluated.push_back(
        {"--pipeline-model-parallel-layout is not in a form that plait "
         "reads: an even split is judged",
         flags_.where("pipeline-model-parallel-layout")});
    return;
  }
  if (stages % layout.pp != 0) {
    problem(Severity::kError, "pipeline-model-parallel-layout",
            fmt::format("names {} stages, which is no multiple of pp = {}", stages, layout.pp),
            "as many stages as pp times virtual stages", kStageArguments);
    return;
  }
  layout.vpp = static_cast<int>(stages / layout.pp);
  layout.schedule = layout.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
  layout.stage_layers = counts;
}

// MindSpeed's no-op layers keep their place but hold nothing.
void MegatronReader::read_noop_layers() {
  if (!flags_.has("noop-layers")) {
    return;
  }
  Layout& layout = out_.job.layout;
  std::vector<int64_t> places = parse_list(flags_.text("noop-layers").value_or(""));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.empty() || places.back() >= listed_layers_) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: --noop-layers must list layers below --num-layers {}, such as 61,62",
                flags_.where("noop-layers").text(), listed_layers_);
  }
  mark("stage_layers", "noop-layers");
  const int64_t stages = static_cast<int64_t>(layout.pp) * layout.vpp;
  if (layout.stage_layers.empty()) {
    if (listed_layers_ % stages != 0 || stages > kMaxStages) {
      return;  // reported as an uneven split
    }
    layout.stage_layers.assign(static_cast<size_t>(stages), listed_layers_ / stages);
  }
  int64_t begin = 0;
  for (int64_t& count : layout.stage_layers) {
    const int64_t end = begin + count;
    count -= std::count_if(places.begin(), places.end(),
                           [&](int64_t place) { return place >= begin && place < end; });
    begin = end;
  }
  out_.job.model.num_layers -= static_cast<int64_t>(places.size());
}

}  // namespace plait
