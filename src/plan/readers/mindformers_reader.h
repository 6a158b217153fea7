// Parts of the reader of MindFormers run files. Internal to readers/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/readers/read_job.h"

namespace YAML {
class Node;
}

namespace plait {

inline constexpr const char* kMindFormersDocs =
    "MindFormers docs, configuration file (parallel_config)";
inline constexpr int64_t kMostYamlValue = int64_t{1} << 31;

// The tree of a run file on top of the files that its base_config names, relative to it; their
// paths are added to `bases`. Errors: kNotFound for a base that is not there; kCorruptData,
// kInvalidArgument; all name file and line.
YAML::Node read_with_bases(const std::string& text, const std::string& origin,
                           std::vector<std::string>& bases);
// The file that a node of that tree stands in.
const std::string& file_of(const YAML::Node& node, const std::string& origin,
                           const std::vector<std::string>& bases);

class MindFormersReader {
 public:
  MindFormersReader(std::string origin, std::vector<std::string> bases, const ReadOptions& options)
      : bases_(std::move(bases)), options_(options) {
    out_.origin = std::move(origin);
    out_.kind = "MindFormers configuration";
    out_.job.stack = Stack::kMindFormers;
    out_.job.vocab_multiple = 1;
  }

  ReadJob read(const YAML::Node& root);

 private:
  // model.model_config, or model_config at the top.
  static YAML::Node model_section(const YAML::Node& root);
  void list_unknown_keys(const YAML::Node& root);
  void read_parallel(const YAML::Node& root);
  void read_run(const YAML::Node& root);
  void read_recompute(const YAML::Node& root);
  static std::vector<int64_t> recompute_lists(const YAML::Node& lists);
  void read_model(const YAML::Node& root);
  void read_shape(const YAML::Node& config);
  void read_moe(const YAML::Node& root);
  void read_offset(const YAML::Node& config);
  void read_memory_limit(const YAML::Node& root);
  void settle_world();

  SourceLine where(const YAML::Node& node) const;
  std::optional<int64_t> size(const YAML::Node& map, const char* key, const char* section,
                              int64_t least = 1);
  int degree(const YAML::Node& map, const char* key, const char* name);
  // True for a key that is on.
  static bool flag(const YAML::Node& map, const char* key);
  static std::string shown(const YAML::Node& node);
  void mark(const char* key, const std::string& name, const YAML::Node& node);
  void problem(Severity severity, const std::string& key, const YAML::Node& node, std::string rule,
               std::string suggestion, const char* source);

  std::vector<std::string> bases_;  // files of base_config
  const ReadOptions& options_;
  ReadJob out_;
  int64_t interleave_ = 1;
};

}  // namespace plait
