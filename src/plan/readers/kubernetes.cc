#include "plan/readers/kubernetes.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "plan/readers/flag_set.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

constexpr size_t kMostManifestBytes = 1 << 20;
constexpr int64_t kMaxCount = 1000000;

// A set of equal pods, wherever its kind of job keeps them.
struct PodSet {
  YAML::Node replicas;  // Null: one
  YAML::Node pod;       // the pod's spec
};

// Volcano: spec.tasks; the operators: spec.*replicaSpecs or *ReplicaSpecs; batch/v1: spec.template.
std::vector<PodSet> pod_sets(const YAML::Node& job) {
  std::vector<PodSet> sets;
  const YAML::Node spec = yaml_child(job, "spec");
  for (const YAML::Node& task : yaml_child(spec, "tasks")) {
    sets.push_back(
        {yaml_child(task, "replicas"), yaml_child(yaml_child(task, "template"), "spec")});
  }
  for (const char* key :
       {"replicaSpecs", "pytorchReplicaSpecs", "mpiReplicaSpecs", "msReplicaSpecs"}) {
    const YAML::Node replicas = yaml_child(spec, key);
    if (!replicas.IsMap()) {
      continue;
    }
    for (const auto& entry : replicas) {
      sets.push_back({yaml_child(entry.second, "replicas"),
                      yaml_child(yaml_child(entry.second, "template"), "spec")});
    }
  }
  // LeaderWorkerSet: the leader runs the program, the workers join it.
  const YAML::Node group = yaml_child(spec, "leaderWorkerTemplate");
  if (group.IsMap()) {
    const YAML::Node leader = yaml_child(group, "leaderTemplate");
    sets.push_back(
        {yaml_child(group, "size"),
         yaml_child(leader.IsMap() ? leader : yaml_child(group, "workerTemplate"), "spec")});
  }
  if (yaml_scalar(job, "kind") == "Pod") {
    sets.push_back({YAML::Node(YAML::NodeType::Null), spec});
  }
  // Replicas of a Deployment are servers of their own: one of them is judged.
  if (yaml_child(spec, "template").IsMap()) {
    sets.push_back(
        {yaml_child(spec, "parallelism"), yaml_child(yaml_child(spec, "template"), "spec")});
  }
  return sets;
}

// Kinds whose replicas know nothing of each other.
bool is_server(std::string_view kind) {
  static constexpr std::string_view kServers[] = {"Deployment", "StatefulSet", "ReplicaSet", "Pod"};
  return std::find(std::begin(kServers), std::end(kServers), kind) != std::end(kServers);
}

class ManifestReader {
 public:
  explicit ManifestReader(std::string origin) : origin_(std::move(origin)) {}

  std::optional<Manifest> read(const std::vector<YAML::Node>& documents);

 private:
  SourceLine where(const YAML::Node& node) const {
    return {origin_, node.Mark().is_null() ? 0 : node.Mark().line + 1};
  }
  int64_t count(const YAML::Node& node, const char* what) const;
  int64_t devices_of(const YAML::Node& container) const;
  void read_files(const YAML::Node& config_map);
  void read_container(const YAML::Node& container, Manifest& found) const;
  void read_job(const YAML::Node& job);

  std::string origin_;
  std::map<std::string, std::string> files_;
  std::optional<Manifest> manifest_;
};

int64_t ManifestReader::count(const YAML::Node& node, const char* what) const {
  const std::optional<int64_t> value =
      node.IsScalar() ? parse_integer(node.Scalar()) : std::nullopt;
  if (node.IsScalar() && node.Scalar().find('$') != std::string::npos) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} is the placeholder {}: fill it in first (envsubst), then check the result",
                where(node).text(), what, node.Scalar().substr(0, 60));
  }
  if (!value || *value < 0 || *value > kMaxCount) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {} must be a whole number of 0 to {}",
                where(node).text(), what, kMaxCount);
  }
  return *value;
}

// huawei.com/Ascend910, nvidia.com/gpu and the like.
int64_t ManifestReader::devices_of(const YAML::Node& container) const {
  for (const char* part : {"limits", "requests"}) {
    const YAML::Node list = yaml_child(yaml_child(container, "resources"), part);
    if (!list.IsMap()) {
      continue;
    }
    for (const auto& entry : list) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (name.starts_with("huawei.com/") || name == "nvidia.com/gpu") {
        return count(entry.second, name.c_str());
      }
    }
  }
  return 0;
}

void ManifestReader::read_files(const YAML::Node& config_map) {
  const YAML::Node data = yaml_child(config_map, "data");
  if (!data.IsMap()) {
    return;
  }
  for (const auto& entry : data) {
    if (entry.first.IsScalar() && entry.second.IsScalar()) {
      files_[entry.first.Scalar()] = entry.second.Scalar();
    }
  }
}

void ManifestReader::read_container(const YAML::Node& container, Manifest& found) const {
  std::string words;
  for (const char* key : {"command", "args"}) {
    for (const YAML::Node& word : yaml_child(container, key)) {
      const std::string text = word.IsScalar() ? word.Scalar() : "";
      // "bash -c TEXT": the text is the script.
      const bool shell = text == "-c" || text == "-lc" || text == "-xc" ||
                         text.ends_with("/bash") || text == "bash" || text.ends_with("/sh") ||
                         text == "sh";
      words += shell ? "" : text + " ";
    }
  }
  found.script = words;
  found.script_name = yaml_scalar(container, "name");
  for (const auto& [name, text] : files_) {
    if (words.find("/" + name) != std::string::npos) {
      found.script = text;
      found.script_name = name;
      break;
    }
  }
  for (const YAML::Node& variable : yaml_child(container, "env")) {
    const std::string value = yaml_scalar(variable, "value");
    // What a later envsubst or the cluster fills in is not known here.
    if (!value.empty() && value.find('$') == std::string::npos) {
      found.environment[yaml_scalar(variable, "name")] = value;
    }
  }
}

void ManifestReader::read_job(const YAML::Node& job) {
  Manifest found;
  const bool volcano = yaml_scalar(job, "apiVersion").find("volcano.sh") != std::string::npos;
  found.kind = volcano ? "Volcano Job" : yaml_scalar(job, "kind");
  found.pods_where = where(job);
  found.is_server = is_server(found.kind);
  for (const PodSet& set : pod_sets(job)) {
    const YAML::Node containers = yaml_child(set.pod, "containers");
    if (!containers.IsSequence() || containers.size() == 0) {
      continue;
    }
    // The one with devices; helpers beside it have none.
    YAML::Node container = containers[0];
    for (const YAML::Node& other : containers) {
      if (devices_of(container) == 0 && devices_of(other) > 0) {
        container.reset(other);
      }
    }
    const int64_t devices = devices_of(container);
    // A scheduler or launcher that computes nothing.
    if (devices == 0 && found.devices > 0) {
      continue;
    }
    if (devices > 0 && found.devices == 0) {
      found.pods = 0;
    }
    read_container(container, found);
    found.devices = devices;
    found.pods += set.replicas.IsNull() ? 1 : count(set.replicas, "replicas");
    if (!set.replicas.IsNull()) {
      found.pods_where = where(set.replicas);
    }
  }
  if (found.pods == 0) {
    throw_error(ErrorCode::kInvalidArgument, "{}: this {} has no pod with a container",
                where(job).text(), found.kind);
  }
  manifest_ = std::move(found);
}

std::optional<Manifest> ManifestReader::read(const std::vector<YAML::Node>& documents) {
  for (const YAML::Node& document : documents) {
    if (yaml_scalar(document, "kind") == "ConfigMap") {
      read_files(document);
    }
  }
  for (const YAML::Node& document : documents) {
    const std::string kind = yaml_scalar(document, "kind");
    const bool runs = kind.ends_with("Job") || kind == "LeaderWorkerSet" || is_server(kind);
    if (!yaml_scalar(document, "apiVersion").empty() && runs && !manifest_) {
      read_job(document);
    }
  }
  if (manifest_) {
    manifest_->files = std::move(files_);
  }
  return std::move(manifest_);
}

}  // namespace

std::optional<Manifest> read_manifest(const std::string& text, const std::string& origin) {
  if (text.size() > kMostManifestBytes || text.find("apiVersion") == std::string::npos) {
    return std::nullopt;
  }
  try {
    return ManifestReader(origin).read(yaml_documents(text));
  } catch (const YAML::Exception& error) {
    throw_yaml_error(origin, error);
  }
}

}  // namespace plait
