// Kubernetes manifests of training jobs (Volcano Job, AscendJob, PyTorchJob, MPIJob, Job) and of
// servers (Deployment, StatefulSet, Pod, LeaderWorkerSet): the script that their containers run,
// and the devices that they ask for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/readers/source_line.h"

namespace plait {

struct Manifest {
  std::string kind;                                // "Volcano Job", "AscendJob", ...
  std::string script;                              // shell text
  std::string script_name;                         // of the ConfigMap's file, or of the container
  std::map<std::string, std::string> files;        // all files of ConfigMaps
  std::map<std::string, std::string> environment;  // of the container, plain values
  bool is_server = false;  // of a Deployment: its replicas know nothing of each other
  int64_t pods = 0;        // that run the script
  int64_t devices = 0;     // of one pod; 0: none are asked for
  SourceLine pods_where;
  std::string pods_key = "replicas";  // where the file counts them: "parallelism", "size"
  std::vector<Note> notes;            // which of several jobs was read
};

// Of several jobs and servers the first that asks for devices, else the first whose command starts
// ranks, else the first. Absent if no document of the text is a Kubernetes job or server. Errors:
// kCorruptData for text that is no YAML, kInvalidArgument for a job without a container that runs a
// shell or a program and for more pods, containers or text than jobs have, naming file and line.
std::optional<Manifest> read_manifest(const std::string& text, const std::string& origin);

}  // namespace plait
