#include "train/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/json_full.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/safetensors.h"
#include "comm/rank_runner.h"
#include "parallel/logical_tensors.h"
#include "train/engine.h"
#include "train/logits_collector.h"

namespace plait {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

// The files of one golden directory, read once and shared by rank threads.
struct Golden {
  explicit Golden(const std::string& directory)
      : config(load_model_config(directory)),
        weights(open_hf_weights(directory, config)),
        answers(directory + "/golden.safetensors"),
        json(read_json(directory + "/golden.json")) {
    if (json.contains("train")) {
      train = std::make_unique<SafetensorsFile>(directory + "/train.safetensors");
    }
  }
  ModelConfig config;
  HfImport weights;
  SafetensorsFile answers;
  Json json;
  std::unique_ptr<SafetensorsFile> train;
};

double number(const Json& json, const char* key, double fallback) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : fallback;
}

std::vector<float> floats(const SafeTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, whole_tensor(tensor), values);
  return values;
}

// Splits a [..., cols] integer tensor into rows.
Rows integer_rows(const SafeTensor& tensor, int64_t cols) {
  const std::vector<int64_t> values = read_integers(tensor);
  Rows rows;
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(cols)) {
    std::vector<int32_t> row;
    for (int64_t c = 0; c < cols; ++c) {
      row.push_back(static_cast<int32_t>(values[i + static_cast<size_t>(c)]));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Largest difference relative to the largest expected value; infinite for other sizes or NaN.
double relative_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  if (expected.size() != actual.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = std::fabs(static_cast<double>(expected[i]) - actual[i]);
    if (!(d <= std::numeric_limits<double>::max())) {
      return std::numeric_limits<double>::infinity();
    }
    difference = std::max(difference, d);
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
  }
  return largest > 0 ? difference / largest : difference;
}

double relative_error(double expected, double actual) {
  const double error = std::fabs(actual - expected) / std::max(std::fabs(expected), 1e-30);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

// Reads rows as language-model samples: the target of a token is the next one, the last and all
// padding are masked.
RowReader next_token_rows(const Rows& rows, int64_t seq_len) {
  return [&rows, seq_len](int64_t row, int32_t* tokens, int32_t* targets) {
    const std::vector<int32_t>& source = rows[static_cast<size_t>(row)];
    for (int64_t i = 0; i < seq_len; ++i) {
      const auto length = static_cast<int64_t>(source.size());
      tokens[i] = i < length ? source[static_cast<size_t>(i)] : 0;
      targets[i] = i + 1 < length ? source[static_cast<size_t>(i + 1)] : -100;
    }
  };
}

// One rank's run through all parts.
class Verifier {
 public:
  Verifier(const Golden& golden, const Layout& layout, World& world)
      : golden_(golden), layout_(layout), world_(world) {}

  void run() {
    check_answers();
    check_greedy();
    if (golden_.train != nullptr) {
      check_training();
    }
  }
  std::vector<GoldenPart> parts;

 private:
  std::unique_ptr<Engine> make_engine(int64_t rows, int64_t seq_len, const AdamwConfig& adamw,
                                      double clip) {
    EngineConfig config;
    config.model = golden_.config;
    config.layout = layout_;
    const int64_t multiple = layout_.sp ? layout_.tp : 1;
    config.batch = {.global_batch_size = rows,
                    .micro_batch_size = 1,
                    .seq_len = (seq_len + multiple - 1) / multiple * multiple};
    config.adamw = adamw;
    config.clip_grad_norm = clip;
    auto engine = std::make_unique<Engine>(config, world_);
    engine->init_weights(golden_.weights.source);
    return engine;
  }

  void add(const std::string& name, double error, double limit) {
    parts.push_back({name, error, limit});
  }

  void check_answers() {
    const SafeTensor& ids = golden_.answers.at("input_ids");
    const int64_t seq_len = ids.shape.back();
    const Rows rows = integer_rows(ids, seq_len);
    const auto engine = make_engine(static_cast<int64_t>(rows.size()), seq_len, {}, 0);
    LogitsCollector logits(*engine);
    const StepResult result =
        engine->forward_backward(next_token_rows(rows, engine->config().batch.seq_len));
    std::vector<float> all;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (int64_t i = 0; i < seq_len; ++i) {
        logits.request(static_cast<int64_t>(row), i);
      }
    }
    for (const std::vector<float>& position : logits.gather()) {
      all.insert(all.end(), position.begin(), position.end());
    }
    add("logits", relative_error(floats(golden_.answers.at("logits")), all), 1e-4);
    const std::vector<float> loss = floats(golden_.answers.at("loss"));
    add("loss", relative_error(loss.at(0), result.loss), 1e-5);
    if (golden_.json.contains("grad_norm")) {
      add("gradient norm", relative_error(number(golden_.json, "grad_norm", 0), result.grad_norm),
          1e-5);
    }
    const auto grads = gather_logical(LogicalKind::kGradient, engine->store(), engine->optimizer(),
                                      engine->context());
    for (const auto& [name, values] : grads) {
      add("grad " + name, relative_error(floats(golden_.answers.at("grad." + name)), values), 1e-4);
    }
  }

  void check_greedy() {
    if (!golden_.json.contains("greedy")) {
      return;
    }
    Rows rows;
    Rows expected;
    size_t longest = 0;
    for (const Json& entry : golden_.json["greedy"]) {
      rows.push_back(entry.at("prompt").get<std::vector<int32_t>>());
      for (const auto& [key, value] : entry.items()) {
        if (key.starts_with("greedy")) {
          expected.push_back(value.get<std::vector<int32_t>>());
        }
      }
      CHECK_EQ(rows.size(), expected.size());
      longest = std::max(longest, rows.back().size() + expected.back().size());
    }
    const auto engine =
        make_engine(static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest), {}, 0);
    LogitsCollector logits(*engine);
    size_t wrong = 0;
    for (size_t i = 0; i < expected.front().size(); ++i) {
      engine->evaluate(next_token_rows(rows, engine->config().batch.seq_len));
      for (size_t r = 0; r < rows.size(); ++r) {
        logits.request(static_cast<int64_t>(r), static_cast<int64_t>(rows[r].size()) - 1);
      }
      const std::vector<std::vector<float>> last = logits.gather();
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto best = std::ranges::max_element(last[r]) - last[r].begin();
        if (i < expected[r].size()) {
          wrong += best == expected[r][i] ? 0 : 1;
          rows[r].push_back(expected[r][i]);
        }
      }
    }
    add("greedy tokens that differ", static_cast<double>(wrong), 0);
  }

  void check_training() {
    const Json& train = golden_.json["train"];
    const Json& hyper = train.at("hyperparameters");
    const SafeTensor& batches = golden_.train->at("batches");
    const int64_t seq_len = batches.shape.back();
    const int64_t batch_rows = batches.shape.at(1);
    const Rows rows = integer_rows(batches, seq_len);
    const AdamwConfig adamw{.beta1 = number(hyper, "beta1", 0.9),
                            .beta2 = number(hyper, "beta2", 0.95),
                            .eps = number(hyper, "eps", 1e-8),
                            .weight_decay = number(hyper, "weight_decay", 0.1)};
    const auto engine =
        make_engine(batch_rows, seq_len, adamw, number(hyper, "clip_grad_norm", 1.0));
    double loss_error = 0;
    double first_norm_error = 0;
    double norm_error = 0;
    for (int64_t step = 0; step < batches.shape[0]; ++step) {
      const auto begin = rows.begin() + step * batch_rows;
      const Rows batch(begin, begin + batch_rows);
      const StepResult result =
          engine->forward_backward(next_token_rows(batch, engine->config().batch.seq_len));
      engine->update(number(hyper, "lr", 1e-3), step + 1, result.grad_norm);
      const Json& expected = train.at("steps").at(static_cast<size_t>(step));
      loss_error = std::max(loss_error, relative_error(number(expected, "loss", 0), result.loss));
      const double error = relative_error(number(expected, "grad_norm", 0), result.grad_norm);
      (step == 0 ? first_norm_error : norm_error) =
          std::max(step == 0 ? first_norm_error : norm_error, error);
    }
    add("train loss", loss_error, 1e-5);
    add("train gradient norm, first step", first_norm_error, 1e-5);
    add("train gradient norm, later", norm_error, 1e-3);
    const auto weights = gather_logical(LogicalKind::kMaster, engine->store(), engine->optimizer(),
                                        engine->context());
    for (const auto& [name, values] : weights) {
      if (const SafeTensor* tensor = golden_.train->find("final." + name)) {
        add("final " + name, relative_error(floats(*tensor), values), 1e-2);
      }
    }
  }

  const Golden& golden_;
  const Layout& layout_;
  World& world_;
};

}  // namespace

bool GoldenReport::passed() const {
  return !parts.empty() && std::ranges::all_of(parts, &GoldenPart::passed);
}

GoldenReport verify_golden(const VerifyOptions& options) {
  const Golden golden(options.directory);
  const Layout& layout = options.layout;
  // Rows are padded to whole micro-batches, so the batch is given as one that fits.
  const BatchConfig batch{.global_batch_size = static_cast<int64_t>(layout.dp) * layout.pp,
                          .micro_batch_size = 1,
                          .seq_len = layout.sp ? layout.tp : 1};
  check_run({golden.config, layout, batch, layout.world_size()});
  GoldenReport report{.directory = options.directory, .layout = to_string(layout), .parts = {}};
  RankRunnerOptions runner;
  runner.ranks = layout.world_size();
  runner.device = options.device;
  runner.threads_per_rank = options.threads_per_rank;
  runner.comm.deadline_s = options.deadline_s;
  run_ranks(runner, [&](World& world) {
    Verifier verifier(golden, layout, world);
    verifier.run();
    if (world.rank() == 0) {
      report.parts = std::move(verifier.parts);
    }
  });
  return report;
}

}  // namespace plait
