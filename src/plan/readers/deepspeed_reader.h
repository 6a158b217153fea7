// Parts of the reader of DeepSpeed configurations. Internal to readers/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "plan/readers/read_job.h"

namespace plait {

inline constexpr int64_t kMaxDeepSpeedBatch = int64_t{1} << 31;  // rows

class DeepSpeedReader {
 public:
  // `first_line` is that of the text in its file (a here-document does not begin at 1).
  DeepSpeedReader(const std::string& text, std::string origin, const ReadOptions& options,
                  int first_line);

  ReadJob read();

  // What a launch knows beside the configuration.
  void set_launched(int64_t world) { launched_ = world; }
  void set_model(std::string model) { model_ = std::move(model); }
  void set_unknown_model(std::string name) { unknown_model_ = std::move(name); }
  void set_sequence(int64_t tokens) { seq_ = tokens; }
  void set_micro_batch(int64_t rows) { launch_micro_ = rows; }
  void set_accumulation(int64_t steps) { launch_steps_ = steps; }

  // An unknown key is listed, with a known one that looks alike.
  void unknown(const std::string& path, const std::string& nearest);

 private:
  void read_config();
  void read_batch(const Json& root);
  void read_zero(const Json& root);
  void read_buckets(const Json& zero);
  void read_precision(const Json& root);
  void settle_world();
  void settle_batch();
  void match_launch(const char* key, std::string_view flag, int64_t launched,
                    std::optional<int64_t>& value);
  void settle_model();
  void settle_buckets();
  std::optional<int64_t> size(const Json& object, const char* key, const std::string& path,
                              int64_t least = 1);
  bool enabled(const Json& root, const char* key);
  void mark(const char* key, const std::string& path, const std::string& value);
  void problem(const std::string& path, std::string value, std::string rule, std::string suggestion,
               const char* source);
  SourceLine where(const std::string& path) const;

  std::string text_;
  const ReadOptions& options_;
  int first_line_;
  ReadJob out_;
  std::optional<int64_t> batch_, micro_, steps_;
  std::vector<std::string> autos_;
  int64_t launched_ = 0;
  int64_t launch_micro_ = 0, launch_steps_ = 0;
  std::string model_, unknown_model_;
  int64_t seq_ = 0;
  bool auto_buckets_ = false;
  double bucket_copies_ = 1;
  double reduce_elements_ = 0, gather_elements_ = 0, live_elements_ = 0;
};

}  // namespace plait
