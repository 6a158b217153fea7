// Manifests for Kubernetes: a Volcano Job, or an AscendJob of the Ascend Operator. The launch
// script of the job's stack travels in a ConfigMap.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "plan/export/exporters.h"
#include "plan/export/script.h"
#include "plan/export/yaml_text.h"

namespace plait {
namespace {

struct Variables {
  std::vector<ScriptVariable> list;  // for submit.sh; "${NAME}" stands in the manifest
  std::vector<std::string> passed;   // those that become environment of the container
};

const char* resource_name(const Chip& chip) {
  switch (vendor_of(chip)) {
    case ChipVendor::kAscend:
      return chip.name.find("310") != std::string::npos ? "huawei.com/Ascend310P"
                                                        : "huawei.com/Ascend910";
    case ChipVendor::kNvidia:
      return "nvidia.com/gpu";
    case ChipVendor::kCpu:
      break;
  }
  return "";
}

// What MindCluster calls the placement of whole servers.
std::string schedule_policy(const ExportRequest& request) {
  if (is_a3(request.cluster.chip)) {
    return "chip2-node16-sp";
  }
  return "chip8-node8";
}

std::string product_label(const Chip& chip) {
  return chip.name.find("310") != std::string::npos ? "ascend-310P"
         : is_a3(chip)                              ? "ascend-1980b"
                                                    : "ascend-910b";
}

Variables variables_of(const ExportRequest& request) {
  Variables v;
  v.list.push_back({"PLAIT_IMAGE", "container image with the software of the job", ""});
  v.list.push_back(
      {"PLAIT_SHARED_DIR", "absolute directory on all nodes, mounted at the same path", ""});
  const auto pass = [&](const char* name, const char* help) {
    v.list.push_back({name, help, ""});
    v.passed.emplace_back(name);
  };
  switch (request.job.stack) {
    case Stack::kMegatron:
      pass("MEGATRON_PATH", "Megatron-LM checkout, as the container sees it");
      break;
    case Stack::kMindSpeed:
      pass("MINDSPEED_LLM_PATH", "MindSpeed-LLM checkout, as the container sees it");
      break;
    case Stack::kMindFormers:
      pass("MINDFORMERS_PATH", "MindFormers checkout, as the container sees it");
      break;
    case Stack::kDeepSpeed:
      pass("TRAIN_SCRIPT", "program that takes HF TrainingArguments, as the container sees it");
      pass("MODEL_PATH", "HF model directory, as the container sees it");
      break;
    case Stack::kPlait:
      if (request.sizes_only) {
        pass("MODEL_PATH", "HF config.json, as the container sees it");
      }
      break;
  }
  pass("DATA_PATH", "training data, as the container sees it");
  const bool tokenizer =
      request.job.stack == Stack::kMegatron || request.job.stack == Stack::kMindSpeed;
  if (tokenizer) {
    pass("TOKENIZER_PATH", "HF tokenizer directory, as the container sees it");
  }
  if (tokenizer && request.job.lora.rank > 0) {
    pass("LOAD_DIR", "checkpoint of the base model, as the container sees it");
    pass("PROMPT_TYPE", "MindSpeed-LLM's template for the model, such as qwen3");
  }
  if (tokenizer && request.sizes_only) {
    pass("ROPE_ARGS", "rotary flags for the model's config.json, such as --rotary-base 1000000");
    pass("NORM_EPSILON", "rms_norm_eps of the model's config.json, such as 1e-6");
  }
  pass("SAVE_DIR", "directory for checkpoints, as the container sees it");
  return v;
}

YAML::Node named(const std::string& name) {
  YAML::Node node;
  node["name"] = name;
  return node;
}

YAML::Node variable(const std::string& name, const std::string& value) {
  YAML::Node node = named(name);
  node["value"] = yaml_string(value);
  return node;
}

// The devices that the scheduler chose, for the Ascend container runtime.
YAML::Node visible_devices(const std::string& resource) {
  YAML::Node node = named("ASCEND_VISIBLE_DEVICES");
  node["valueFrom"]["fieldRef"]["fieldPath"] = fmt::format("metadata.annotations['{}']", resource);
  return node;
}

YAML::Node mount(const std::string& name, const std::string& path) {
  YAML::Node node = named(name);
  node["mountPath"] = path;
  return node;
}

YAML::Node host_volume(const std::string& name, const std::string& path) {
  YAML::Node node = named(name);
  node["hostPath"]["path"] = path;
  return node;
}

// The parts of a pod that both kinds of job share.
class Pod {
 public:
  explicit Pod(const ExportRequest& request)
      : request_(request),
        machines_(machines_of(request)),
        resource_(resource_name(request.cluster.chip)),
        ascend_(vendor_of(request.cluster.chip) == ChipVendor::kAscend) {}

  // `prologue`: shell text that sets NODE_RANK and MASTER_ADDR.
  YAML::Node template_with(const YAML::Node& container, const std::string& restart) const;
  YAML::Node container(const std::string& prologue, const std::string& script) const;

 private:
  YAML::Node volumes() const;

  const ExportRequest& request_;
  Machines machines_;
  std::string resource_;
  bool ascend_;
};

YAML::Node Pod::container(const std::string& prologue, const std::string& script) const {
  YAML::Node c;
  c["name"] = ascend_ ? "ascend" : "worker";
  c["image"] = "${PLAIT_IMAGE}";
  c["imagePullPolicy"] = "IfNotPresent";
  c["command"] = yaml_list({YAML::Node("/bin/bash"), YAML::Node("-c")});
  c["args"] = yaml_list({YAML::Node(fmt::format("{}exec bash /plait/{}\n", prologue, script))});
  YAML::Node env(YAML::NodeType::Sequence);
  for (const std::string& name : variables_of(request_).passed) {
    env.push_back(variable(name, "${" + name + "}"));
  }
  if (ascend_) {
    env.push_back(visible_devices(resource_));
  }
  c["env"] = env;
  if (!resource_.empty()) {
    c["resources"]["requests"][resource_] = machines_.per_server;
    c["resources"]["limits"][resource_] = machines_.per_server;
  }
  YAML::Node mounts = yaml_list(
      {mount("plan", "/plait"), mount("shared", "${PLAIT_SHARED_DIR}"), mount("dshm", "/dev/shm")});
  if (ascend_) {
    mounts.push_back(mount("ascend-driver", "/usr/local/Ascend/driver"));
  }
  c["volumeMounts"] = mounts;
  return c;
}

YAML::Node Pod::volumes() const {
  YAML::Node plan = named("plan");
  plan["configMap"]["name"] = request_.name + "-plan";
  YAML::Node memory = named("dshm");
  memory["emptyDir"]["medium"] = "Memory";
  YAML::Node list = yaml_list({plan, host_volume("shared", "${PLAIT_SHARED_DIR}"), memory});
  if (ascend_) {
    list.push_back(host_volume("ascend-driver", "/usr/local/Ascend/driver"));
  }
  return list;
}

YAML::Node Pod::template_with(const YAML::Node& container, const std::string& restart) const {
  YAML::Node pod;
  pod["metadata"]["labels"]["app"] = request_.name;
  if (ascend_) {
    pod["metadata"]["labels"]["ring-controller.atlas"] = product_label(request_.cluster.chip);
    if (machines_.per_server > 1) {
      pod["metadata"]["annotations"]["huawei.com/schedule_policy"] = schedule_policy(request_);
    }
  }
  pod["spec"]["automountServiceAccountToken"] = false;
  // Time to write a checkpoint when the pod is taken back.
  pod["spec"]["terminationGracePeriodSeconds"] = 600;
  if (!restart.empty()) {
    pod["spec"]["restartPolicy"] = restart;
  }
  pod["spec"]["containers"] = yaml_list({container});
  pod["spec"]["volumes"] = volumes();
  return pod;
}

YAML::Node config_map(const ExportRequest& request, const std::vector<ExportedFile>& files) {
  YAML::Node map;
  map["apiVersion"] = "v1";
  map["kind"] = "ConfigMap";
  map["metadata"]["name"] = request.name + "-plan";
  for (const ExportedFile& file : files) {
    map["data"][file.name] = file.text;
  }
  return map;
}

ExportedFile submit_script(const ExportRequest& request, const std::string& kind) {
  const Variables variables = variables_of(request);
  std::string names;
  std::string exports;
  for (const ScriptVariable& v : variables.list) {
    names += "${" + v.name + "} ";
    exports += " " + v.name;
  }
  names.pop_back();
  std::string text =
      script_head({.headline = headline(request),
                   .kind = kind,
                   .directives = "",
                   .usage = "Fills the variables of the manifest and hands it to Kubernetes.\n"
                            "Needs kubectl and envsubst (gettext).\n"});
  text += script_variables(variables.list);
  text += fmt::format("export{}\n\ncd \"$(dirname \"$0\")\"\n", exports);
  // Only these names: the launch script inside has variables of its own.
  text += fmt::format("envsubst '{}' < {}.yaml | kubectl apply -f -\n", names, request.name);
  return {"submit.sh", text, true};
}

std::string manifest(const ExportRequest& request, const YAML::Node& files, const YAML::Node& job,
                     const std::string& kind) {
  return fmt::format(
      "# {}\n# Written by `plait plan export --to {}`. submit.sh fills ${{...}} and applies it.\n"
      "{}---\n{}",
      headline(request), kind, yaml_text(files), yaml_text(job));
}

std::vector<ExportedFile> stack_files(const ExportRequest& request) {
  Refusals no("Kubernetes");
  no.when(request.job.stack == Stack::kPlait && machines_of(request).servers > 1,
          {"stack = plait on several servers",
           "its ranks on other hosts are started by MPI; export to slurm"});
  no.check();
  return export_stack(request);
}

}  // namespace

std::vector<ExportedFile> export_volcano(const ExportRequest& request) {
  const std::vector<ExportedFile> files = stack_files(request);
  const Machines machines = machines_of(request);
  const Pod pod(request);
  YAML::Node job;
  job["apiVersion"] = "batch.volcano.sh/v1alpha1";
  job["kind"] = "Job";
  job["metadata"]["name"] = request.name;
  if (vendor_of(request.cluster.chip) == ChipVendor::kAscend) {
    job["metadata"]["labels"]["ring-controller.atlas"] = product_label(request.cluster.chip);
    job["metadata"]["labels"]["fault-scheduling"] = "grace";
  }
  YAML::Node spec = job["spec"];
  spec["minAvailable"] = machines.servers;
  spec["schedulerName"] = "volcano";
  spec["queue"] = "default";
  spec["maxRetry"] = 3;
  // A job that lost one worker has lost them all.
  for (const char* event : {"PodEvicted", "PodFailed"}) {
    YAML::Node policy;
    policy["event"] = event;
    policy["action"] = "RestartJob";
    spec["policies"].push_back(policy);
  }
  spec["plugins"]["env"] = yaml_flow(YAML::Node(YAML::NodeType::Sequence));
  spec["plugins"]["svc"] = yaml_flow(YAML::Node(YAML::NodeType::Sequence));
  YAML::Node task = named("worker");
  task["replicas"] = machines.servers;
  const std::string prologue = machines.servers > 1 ? fmt::format(
                                                          "export NODE_RANK=$VC_TASK_INDEX\n"
                                                          "export MASTER_ADDR={0}-worker-0.{0}\n",
                                                          request.name)
                                                    : "";
  task["template"] = pod.template_with(pod.container(prologue, files[0].name), "Never");
  spec["tasks"].push_back(task);
  return {{request.name + ".yaml", manifest(request, config_map(request, files), job, "volcano"),
           false},
          submit_script(request, "volcano")};
}

std::vector<ExportedFile> export_ascend_job(const ExportRequest& request) {
  Refusals no("the Ascend Operator");
  no.when(vendor_of(request.cluster.chip) != ChipVendor::kAscend,
          {fmt::format("chip {}", request.cluster.chip.name), "it runs jobs on Ascend NPUs"});
  no.when(request.job.stack == Stack::kPlait,
          {"stack = plait", "it knows PyTorch and MindSpore jobs"});
  no.check();
  const std::vector<ExportedFile> files = stack_files(request);
  const Machines machines = machines_of(request);
  const bool mindspore = request.job.stack == Stack::kMindFormers;
  const Pod pod(request);
  YAML::Node job;
  job["apiVersion"] = "mindxdl.gitee.com/v1";
  job["kind"] = "AscendJob";
  job["metadata"]["name"] = request.name;
  YAML::Node labels = job["metadata"]["labels"];
  labels["framework"] = mindspore ? "mindspore" : "pytorch";
  labels["ring-controller.atlas"] = product_label(request.cluster.chip);
  labels["fault-scheduling"] = "grace";
  labels["fault-retry-times"] = yaml_string("3");
  YAML::Node spec = job["spec"];
  spec["schedulerName"] = "volcano";
  spec["runPolicy"]["schedulingPolicy"]["minAvailable"] = machines.servers;
  spec["runPolicy"]["schedulingPolicy"]["queue"] = "default";
  spec["successPolicy"] = "AllWorkers";
  // The operator sets RANK (of the pod), MASTER_ADDR and MASTER_PORT; for MindSpore, MS_NODE_RANK
  // and MS_SCHED_HOST.
  const std::string prologue = machines.servers == 1 ? ""
                               : mindspore
                                   ? "export NODE_RANK=$MS_NODE_RANK MASTER_ADDR=$MS_SCHED_HOST\n"
                                   : "export NODE_RANK=$RANK\n";
  const auto replica = [&](int count) {
    YAML::Node container = pod.container(prologue, files[0].name);
    YAML::Node port = named("ascendjob-port");
    port["containerPort"] = 2222;
    container["ports"] = yaml_list({port});
    container["volumeMounts"].push_back(mount("ranktable", "/user/serverid/devindex/config"));
    YAML::Node node;
    node["replicas"] = count;
    node["restartPolicy"] = "Never";
    node["template"] = pod.template_with(container, "");
    // The operator writes the rank table there.
    node["template"]["spec"]["volumes"].push_back(
        host_volume("ranktable", fmt::format("/user/mindx-dl/ranktable/default.{}", request.name)));
    return node;
  };
  spec["replicaSpecs"][mindspore ? "Scheduler" : "Master"] = replica(1);
  if (machines.servers > 1) {
    spec["replicaSpecs"]["Worker"] = replica(machines.servers - 1);
  }
  return {{request.name + ".yaml", manifest(request, config_map(request, files), job, "ascendjob"),
           false},
          submit_script(request, "ascendjob")};
}

}  // namespace plait
