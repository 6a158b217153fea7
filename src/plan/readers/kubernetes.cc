#include "plan/readers/kubernetes.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "plan/readers/flag_set.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

constexpr size_t kMostManifestBytes = 1 << 20;
constexpr int64_t kMaxCount = 1000000;

// Aliases make long lists, lists of lists and long texts of short files: what is walked is bounded.
constexpr size_t kMostContainersOfPod = 64;
constexpr size_t kMostPods = 4096;          // sets of pods, and containers, of all documents
constexpr size_t kMostKeys = 256;           // of a mapping that is looked into
constexpr size_t kMostWords = 1024;         // of a command; variables of a container
constexpr size_t kMostTextBytes = 4 << 20;  // of files, and of commands with their variables

// A set of equal pods, wherever its kind of job keeps them.
struct PodSet {
  YAML::Node count;  // Null: one
  const char* count_key;
  YAML::Node pod;  // the pod's spec
};

// What a container asks for; Null: nothing.
struct DeviceRequest {
  std::string name;
  YAML::Node count;
};

struct Program {
  std::string script;
  std::string name;
};

// Kinds whose replicas know nothing of each other.
bool is_server(std::string_view kind) {
  static constexpr std::string_view kServers[] = {"Deployment", "StatefulSet", "ReplicaSet", "Pod"};
  return std::find(std::begin(kServers), std::end(kServers), kind) != std::end(kServers);
}

bool is_job(const YAML::Node& document) {
  const std::string kind = yaml_scalar(document, "kind");
  return !yaml_scalar(document, "apiVersion").empty() &&
         (kind.ends_with("Job") || kind == "LeaderWorkerSet" || is_server(kind));
}

std::string kind_of(const YAML::Node& job) {
  const bool volcano = yaml_scalar(job, "apiVersion").find("volcano.sh") != std::string::npos;
  return volcano ? "Volcano Job" : yaml_scalar(job, "kind");
}

// Whether a text starts training or serving, by the words of its launchers.
bool starts_ranks(std::string_view script) {
  static constexpr std::string_view kWords[] = {
      "torchrun", "torch.distributed", "msrun",      "mpirun",           "mpiexec",
      "srun",     "deepspeed",         "accelerate", "run_mindformer",   "pretrain_gpt",
      "vllm",     "megatron",          "swift ",     "llamafactory-cli", "plait "};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    return script.find(word) != std::string_view::npos;
  });
}

class ManifestReader {
 public:
  explicit ManifestReader(std::string origin) : origin_(std::move(origin)) {}

  std::optional<Manifest> read(const std::vector<YAML::Node>& documents);

 private:
  // By which of several jobs one is read.
  enum class Rank { kPlain, kStartsRanks, kAsksForDevices };

  SourceLine where(const YAML::Node& node) const {
    return {origin_, node.Mark().is_null() ? 0 : node.Mark().line + 1};
  }
  void require_at_most(const YAML::Node& node, size_t most, const char* what) const;
  void take_text(const YAML::Node& node, size_t bytes, size_t& taken) const;
  YAML::Node child(const YAML::Node& map, const char* key) const;
  int64_t count(const YAML::Node& node, const char* what) const;
  std::vector<PodSet> pod_sets(const YAML::Node& job);
  YAML::Node containers_of(const PodSet& set);
  DeviceRequest devices_asked(const YAML::Node& container) const;
  int64_t devices_of(const YAML::Node& container) const;
  YAML::Node main_container(const YAML::Node& containers) const;
  Program program_of(const YAML::Node& container);
  void read_files(const YAML::Node& config_map);
  void read_environment(const YAML::Node& container, Manifest& found);
  Rank rank_of(const YAML::Node& job);
  Note choice(const std::vector<YAML::Node>& jobs, size_t chosen, Rank rank) const;
  Manifest read_job(const YAML::Node& job);
  void add_operator_variables(const YAML::Node& job, Manifest& found) const;
  std::optional<Manifest> read_script_alone(const YAML::Node& config_map);

  std::string origin_;
  std::map<std::string, std::string> files_;
  size_t num_pods_ = 0;
  size_t num_containers_ = 0;
  size_t file_bytes_ = 0;
  size_t command_bytes_ = 0;
};

void ManifestReader::require_at_most(const YAML::Node& node, size_t most, const char* what) const {
  if ((node.IsSequence() || node.IsMap()) && node.size() > most) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {} {}: at most {} are read", where(node).text(),
                node.size(), what, most);
  }
}

void ManifestReader::take_text(const YAML::Node& node, size_t bytes, size_t& taken) const {
  taken += bytes;
  if (taken > kMostTextBytes) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: commands and files hold more than the {} bytes that are read",
                where(node).text(), kMostTextBytes);
  }
}

YAML::Node ManifestReader::child(const YAML::Node& map, const char* key) const {
  require_at_most(map, kMostKeys, "keys");
  return yaml_child(map, key);
}

int64_t ManifestReader::count(const YAML::Node& node, const char* what) const {
  const int64_t value = node.IsScalar() ? parse_integer(node.Scalar()).value_or(-1) : -1;
  if (node.IsScalar() && node.Scalar().find('$') != std::string::npos) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} is the placeholder {}: fill it in first (envsubst), then check the result",
                where(node).text(), what, node.Scalar().substr(0, 60));
  }
  if (value < 0 || value > kMaxCount) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {} must be a whole number of 0 to {}",
                where(node).text(), what, kMaxCount);
  }
  return value;
}

// Volcano: spec.tasks; the operators: spec.*replicaSpecs or *ReplicaSpecs; batch/v1: spec.template.
std::vector<PodSet> ManifestReader::pod_sets(const YAML::Node& job) {
  std::vector<PodSet> sets;
  const YAML::Node spec = yaml_child(job, "spec");
  const auto add = [&](const YAML::Node& counted, const char* count_key, const YAML::Node& pods) {
    if (++num_pods_ > 2 * kMostPods) {  // once to choose a job, once to read it
      throw_error(ErrorCode::kInvalidArgument, "{}: more than the {} sets of pods that are read",
                  where(job).text(), kMostPods);
    }
    sets.push_back({child(counted, count_key), count_key, child(pods, "spec")});
  };
  for (const YAML::Node& task : child(spec, "tasks")) {
    add(task, "replicas", child(task, "template"));
  }
  for (const char* key :
       {"replicaSpecs", "pytorchReplicaSpecs", "mpiReplicaSpecs", "msReplicaSpecs"}) {
    const YAML::Node replicas = child(spec, key);
    if (!replicas.IsMap()) {
      continue;
    }
    for (const auto& entry : replicas) {
      add(entry.second, "replicas", child(entry.second, "template"));
    }
  }
  // LeaderWorkerSet: the leader runs the program, the workers join it.
  const YAML::Node group = child(spec, "leaderWorkerTemplate");
  if (group.IsMap()) {
    const YAML::Node leader = child(group, "leaderTemplate");
    add(group, "size", leader.IsMap() ? leader : child(group, "workerTemplate"));
  }
  if (yaml_scalar(job, "kind") == "Pod") {
    add(YAML::Node(YAML::NodeType::Null), "replicas", job);
  }
  // Replicas of a Deployment are servers of their own: one of them is judged.
  if (child(spec, "template").IsMap()) {
    add(spec, "parallelism", child(spec, "template"));
  }
  return sets;
}

YAML::Node ManifestReader::containers_of(const PodSet& set) {
  YAML::Node containers = child(set.pod, "containers");
  require_at_most(containers, kMostContainersOfPod, "containers of a pod");
  num_containers_ += containers.IsSequence() ? containers.size() : 0;
  if (num_containers_ > 2 * kMostPods) {
    throw_error(ErrorCode::kInvalidArgument, "{}: more than the {} containers that are read",
                where(containers).text(), kMostPods);
  }
  return containers;
}

// huawei.com/Ascend910, nvidia.com/gpu and the like.
DeviceRequest ManifestReader::devices_asked(const YAML::Node& container) const {
  const YAML::Node resources = child(container, "resources");
  for (const char* part : {"limits", "requests"}) {
    const YAML::Node list = child(resources, part);
    require_at_most(list, kMostKeys, "kinds of resources");
    if (!list.IsMap()) {
      continue;
    }
    for (const auto& entry : list) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar().substr(0, 60) : "";
      // "huawei.com/npu-memory" and the like are shares of a device.
      const bool whole = !name.ends_with("-memory") && !name.ends_with("-core");
      if ((name.starts_with("huawei.com/") && whole) || name == "nvidia.com/gpu") {
        return {name, entry.second};
      }
    }
  }
  return {"", YAML::Node(YAML::NodeType::Null)};
}

int64_t ManifestReader::devices_of(const YAML::Node& container) const {
  const DeviceRequest request = devices_asked(container);
  return request.name.empty() ? 0 : count(request.count, request.name.c_str());
}

// The one with devices; helpers beside it have none.
YAML::Node ManifestReader::main_container(const YAML::Node& containers) const {
  for (const YAML::Node& container : containers) {
    if (devices_of(container) > 0) {
      return container;
    }
  }
  return containers[0];
}

// The command of a container, or the ConfigMap's file that it runs.
Program ManifestReader::program_of(const YAML::Node& container) {
  std::string words;
  bool in_shell_options = false;
  for (const char* key : {"command", "args"}) {
    const YAML::Node list = child(container, key);
    require_at_most(list, kMostWords, "words of a command");
    for (const YAML::Node& word : list) {
      const std::string text = word.IsScalar() ? word.Scalar() : "";
      take_text(list, text.size() + 1, command_bytes_);
      // "bash -o pipefail -ec TEXT": the text is the script.
      const std::string program = text.substr(text.rfind('/') + 1);
      const bool shell = program == "bash" || program == "sh";
      const bool option = in_shell_options && (text.starts_with("-") || text == "pipefail");
      in_shell_options = shell || (option && text.find('c') == std::string::npos) ||
                         (option && text == "pipefail");
      words += shell || option ? "" : text + " ";
    }
  }
  const auto of_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  for (size_t slash = words.find('/'); slash != std::string::npos;
       slash = words.find('/', slash + 1)) {
    size_t end = slash + 1;
    while (end < words.size() && of_name(static_cast<unsigned char>(words[end]))) {
      ++end;
    }
    const auto file = files_.find(words.substr(slash + 1, end - slash - 1));
    if (file != files_.end()) {
      take_text(container, file->second.size(), command_bytes_);
      return {file->second, file->first};
    }
  }
  return {std::move(words), yaml_scalar(container, "name")};
}

void ManifestReader::read_files(const YAML::Node& config_map) {
  const YAML::Node data = yaml_child(config_map, "data");
  if (!data.IsMap()) {
    return;
  }
  for (const auto& entry : data) {
    if (entry.first.IsScalar() && entry.second.IsScalar()) {
      take_text(data, entry.first.Scalar().size() + entry.second.Scalar().size(), file_bytes_);
      files_[entry.first.Scalar()] = entry.second.Scalar();
    }
  }
}

void ManifestReader::read_environment(const YAML::Node& container, Manifest& found) {
  const YAML::Node list = child(container, "env");
  require_at_most(list, kMostWords, "variables of a container");
  for (const YAML::Node& variable : list) {
    require_at_most(variable, kMostKeys, "keys");
    const std::string value = yaml_scalar(variable, "value");
    take_text(list, value.size(), command_bytes_);
    // What a later envsubst or the cluster fills in is not known here.
    if (!value.empty() && value.find('$') == std::string::npos) {
      found.environment[yaml_scalar(variable, "name")] = value;
    }
  }
}

ManifestReader::Rank ManifestReader::rank_of(const YAML::Node& job) {
  Rank rank = Rank::kPlain;
  for (const PodSet& set : pod_sets(job)) {
    for (const YAML::Node& container : containers_of(set)) {
      const DeviceRequest request = devices_asked(container);
      if (!request.name.empty() && request.count.IsScalar() && request.count.Scalar() != "0") {
        return Rank::kAsksForDevices;
      }
      if (rank == Rank::kPlain && starts_ranks(program_of(container).script)) {
        rank = Rank::kStartsRanks;
      }
    }
  }
  return rank;
}

Note ManifestReader::choice(const std::vector<YAML::Node>& jobs, size_t chosen, Rank rank) const {
  constexpr size_t kShown = 3;
  const char* reason = rank == Rank::kAsksForDevices ? "it asks for devices"
                       : rank == Rank::kStartsRanks  ? "its command starts ranks"
                                                     : "it comes first";
  std::string others;
  size_t shown = 0;
  for (size_t i = 0; i < jobs.size() && shown < kShown; ++i) {
    if (i != chosen) {
      others += fmt::format("{}the {} of line {}", others.empty() ? "" : ", ",
                            kind_of(jobs[i]).substr(0, 60), where(jobs[i]).line);
      ++shown;
    }
  }
  if (jobs.size() - 1 > shown) {
    others += fmt::format(" and {} more", jobs.size() - 1 - shown);
  }
  return {fmt::format("of {} jobs and servers this {} is read, as {}; not {}", jobs.size(),
                      kind_of(jobs[chosen]).substr(0, 60), reason, others),
          where(jobs[chosen])};
}

Manifest ManifestReader::read_job(const YAML::Node& job) {
  Manifest found;
  found.kind = kind_of(job);
  found.pods_where = where(job);
  found.is_server = is_server(found.kind);
  YAML::Node runs(YAML::NodeType::Null);  // the container whose program is read
  int runs_rank = 0;
  for (const PodSet& set : pod_sets(job)) {
    const YAML::Node containers = containers_of(set);
    if (!containers.IsSequence() || containers.size() == 0) {
      continue;
    }
    const YAML::Node container = main_container(containers);
    const int64_t devices = devices_of(container);
    // An MPIJob's launcher has the command, its workers have the devices.
    const int rank = (starts_ranks(program_of(container).script) ? 2 : 0) + (devices > 0 ? 1 : 0);
    if (rank >= runs_rank) {
      runs.reset(container);
      runs_rank = rank;
    }
    // A scheduler or launcher that computes nothing.
    if (devices == 0 && found.devices > 0) {
      continue;
    }
    if (devices > 0 && found.devices == 0) {
      found.pods = 0;
    }
    found.devices = devices;
    found.pods += set.count.IsNull() ? 1 : count(set.count, set.count_key);
    if (!set.count.IsNull()) {
      found.pods_where = where(set.count);
      found.pods_key = set.count_key;
    }
  }
  if (found.pods == 0) {
    throw_error(ErrorCode::kInvalidArgument, "{}: this {} has no pod with a container",
                where(job).text(), found.kind);
  }
  Program program = program_of(runs);
  found.script = std::move(program.script);
  found.script_name = std::move(program.name);
  read_environment(runs, found);
  add_operator_variables(job, found);
  // "$(NAME)" in a command is filled in before the program starts.
  for (const auto& [name, value] : found.environment) {
    const std::string use = "$(" + name + ")";
    for (size_t at = found.script.find(use); at != std::string::npos;
         at = found.script.find(use, at + value.size())) {
      take_text(job, value.size(), command_bytes_);
      found.script.replace(at, use.size(), value);
    }
  }
  return found;
}

// What Kubeflow's operator tells the pods of a PyTorchJob.
void ManifestReader::add_operator_variables(const YAML::Node& job, Manifest& found) const {
  if (found.kind != "PyTorchJob") {
    return;
  }
  const auto ranks = parse_integer(yaml_scalar(yaml_child(job, "spec"), "nprocPerNode"));
  const int64_t per_pod = ranks.value_or(found.devices);
  found.environment.emplace("PET_NNODES", std::to_string(found.pods));
  found.environment.emplace("WORLD_SIZE", std::to_string(found.pods * ranks.value_or(1)));
  if (per_pod > 0) {
    found.environment.emplace("PET_NPROC_PER_NODE", std::to_string(per_pod));
  }
}

// A ConfigMap without the job that mounts it: its script.
std::optional<Manifest> ManifestReader::read_script_alone(const YAML::Node& config_map) {
  for (const auto& [name, text] : files_) {
    if (!starts_ranks(text)) {
      continue;
    }
    Manifest found;
    found.kind = "ConfigMap";
    found.pods_where = where(config_map);
    found.script = text;
    found.script_name = name;
    found.notes.push_back({fmt::format("the job that runs {} is not in the file: its pods and "
                                       "devices are not compared",
                                       name),
                           where(config_map)});
    found.files = files_;
    return found;
  }
  return std::nullopt;
}

std::optional<Manifest> ManifestReader::read(const std::vector<YAML::Node>& documents) {
  std::vector<YAML::Node> jobs;
  for (const YAML::Node& document : documents) {
    if (yaml_scalar(document, "kind") == "ConfigMap") {
      read_files(document);
    } else if (is_job(document)) {
      jobs.push_back(document);
    }
  }
  if (jobs.empty()) {
    return documents.empty() ? std::nullopt : read_script_alone(documents[0]);
  }
  size_t chosen = 0;
  Rank best = Rank::kPlain;
  for (size_t i = 0; i < jobs.size() && jobs.size() > 1; ++i) {
    const Rank rank = rank_of(jobs[i]);
    if (rank > best) {
      best = rank;
      chosen = i;
    }
  }
  Manifest manifest = read_job(jobs[chosen]);
  if (jobs.size() > 1) {
    manifest.notes.push_back(choice(jobs, chosen, best));
  }
  manifest.files = std::move(files_);
  return manifest;
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
