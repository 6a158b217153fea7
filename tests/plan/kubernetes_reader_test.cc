// Which of a manifest's documents is read, what of it, and what hostile ones cost.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "plan/check.h"
#include "plan/check_report.h"
#include "plan/plan_texts.h"
#include "plan/readers/kubernetes.h"

namespace plait {
namespace {

std::string manifest_refusal(const std::string& text) {
  return refusal_of([&] { read_manifest(text, "job.yaml"); });
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

const char* const kDashboard = R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: dashboard}
spec:
  replicas: $REPLICAS
  template:
    spec:
      containers: [{name: web, command: [python, dashboard.py]}]
)";
const char* const kTraining = R"(---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  template:
    spec:
      containers:
        - name: trainer
          command: [bash, -c, "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py"]
          resources: {limits: {huawei.com/Ascend910: 8}}
)";

TEST(Kubernetes, TheJobWithDevicesIsReadWhereverItStands) {
  for (const std::string& text :
       {std::string(kDashboard) + kTraining, std::string(kTraining) + "---\n" + kDashboard}) {
    const auto manifest = read_manifest(text, "job.yaml");
    ASSERT_TRUE(manifest);
    EXPECT_EQ(manifest->kind, "Job");
    EXPECT_EQ(manifest->pods, 2);
    EXPECT_EQ(manifest->devices, 8);
    ASSERT_EQ(manifest->notes.size(), 1U);
    EXPECT_NE(manifest->notes[0].text.find("of 2 jobs and servers this Job is read, as it asks for "
                                           "devices; not the Deployment of line"),
              std::string::npos)
        << manifest->notes[0].text;
  }
  EXPECT_TRUE(read_manifest(kTraining, "job.yaml")->notes.empty());
}

TEST(Kubernetes, WithoutDevicesTheJobWhoseCommandStartsRanks) {
  std::string training = kTraining;
  training.erase(training.find("          resources"));
  const auto manifest = read_manifest(kDashboard + training, "job.yaml");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->kind, "Job");
  EXPECT_EQ(manifest->notes.at(0).where.text(), "job.yaml:10");
  EXPECT_NE(manifest->notes[0].text.find("its command starts ranks"), std::string::npos);
  // The script of a ConfigMap counts as the command.
  const std::string mapped =
      "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: scripts}\ndata:\n"
      "  train.sh: torchrun --nproc_per_node 8 pretrain_gpt.py\n"
      "---\napiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n"
      "      containers: [{name: t, command: [bash, /scripts/train.sh]}]\n";
  EXPECT_EQ(read_manifest(kDashboard + mapped, "job.yaml")->script_name, "train.sh");
}

TEST(Kubernetes, TheReportSaysWhichJobWasRead) {
  const CheckReport report =
      check_text(std::string(kDashboard) + kTraining +
                     "          args: [--num-layers, '32', --hidden-size, '4096', "
                     "--num-attention-heads, '32', --micro-batch-size, '1']\n",
                 "job.yaml", {});
  EXPECT_NE(check_report_text(report).find("job.yaml:10: of 2 jobs and servers"), std::string::npos)
      << check_report_text(report);
}

// An MPIJob's launcher has the command, its workers the devices.
TEST(Kubernetes, TheLauncherOfAnMpiJob) {
  const auto manifest = read_manifest(R"(apiVersion: kubeflow.org/v1
kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec: {containers: [{name: l, command: [mpirun, -np, '16', python, train.py]}]}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - {name: w, command: [/usr/sbin/sshd], resources: {limits: {nvidia.com/gpu: 8}}}
)",
                                      "job.yaml");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->pods * manifest->devices, 16);
  EXPECT_NE(manifest->script.find("mpirun"), std::string::npos);
}

std::string group_of(const std::string& size) {
  return R"(apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  replicas: 5
  leaderWorkerTemplate:
    size: )" +
         size + R"(
    workerTemplate:
      spec:
        containers:
          - name: leader
            command: [vllm, serve, some/model, -tp, '8', -pp, '2']
            resources: {limits: {nvidia.com/gpu: 8}}
)";
}

TEST(Kubernetes, AGroupOfTheWrongSizeIsToldByItsKey) {
  const CheckReport report = check_text(group_of("3"), "group.yaml", {});
  ASSERT_EQ(report.num_errors(), 1) << problems_of(report);
  EXPECT_EQ(report.problems[0].key, "size");
  EXPECT_EQ(report.problems[0].suggestion, "size=2");
  EXPECT_EQ(report.problems[0].where.text(), "group.yaml:6");
  EXPECT_EQ(check_text(group_of("2"), "group.yaml", {}).num_errors(), 0);
  EXPECT_NE(manifest_refusal(group_of("many")).find("group"), 0U);
}

TEST(Kubernetes, TheKeyThatCountsThePodsOfAJob) {
  std::string training = kTraining;
  training.replace(training.find("pretrain_gpt.py"), 15,
                   "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
                   "--micro-batch-size 1 --bf16 --vocab-size 32000 --seq-length 512 "
                   "--max-position-embeddings 512");
  training.replace(training.find("parallelism: 2"), 14, "parallelism: 4");
  const CheckReport report = check_text(training, "job.yaml", {});
  ASSERT_GE(report.num_errors(), 1) << problems_of(report);
  EXPECT_EQ(report.problems[0].key, "parallelism");
  EXPECT_EQ(report.problems[0].suggestion, "parallelism=2");
}

// Aliases multiply: each of these is small on disk.
TEST(Kubernetes, ListsMadeOfAliasesAreBounded) {
  const std::string head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec:\n";
  const std::string one = "&c {name: c, command: [torchrun, x.py]}";
  const auto job = [&](int containers, int tasks) {
    return head + "  tasks:\n    - &t {template: {spec: {containers: [" + one +
           repeated(", *c", containers - 1) + "]}}}\n" + repeated("    - *t\n", tasks - 1);
  };
  EXPECT_EQ(manifest_refusal(job(64, 60)), "accepted");
  EXPECT_NE(manifest_refusal(job(65, 1)).find("65 containers of a pod: at most 64"),
            std::string::npos);
  EXPECT_NE(manifest_refusal(job(1, 9000)).find("more than the 4096 sets of pods"),
            std::string::npos);
  EXPECT_NE(manifest_refusal(job(64, 3000)).find("more than the 4096 containers"),
            std::string::npos);

  const std::string word = "[&w " + std::string(300000, 'x') + repeated(", *w", 900) + "]";
  const auto with = [&](const std::string& container) {
    return head + "  tasks: [{template: {spec: {containers: [{name: c, " + container + "}]}}}]\n";
  };
  EXPECT_NE(manifest_refusal(with("command: " + word)).find("bytes that are read"),
            std::string::npos);
  EXPECT_NE(manifest_refusal(with("command: [&w a" + repeated(", *w", 2000) + "]"))
                .find("words of a command"),
            std::string::npos);
  EXPECT_NE(manifest_refusal(with("env: [&v {name: a, value: b}" + repeated(", *v", 2000) + "]"))
                .find("variables of a container"),
            std::string::npos);
  std::string files =
      "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: &f " + std::string(300000, 'x') + "\n";
  for (int i = 0; i < 900; ++i) {
    files += "  f" + std::to_string(i) + ": *f\n";
  }
  EXPECT_NE(manifest_refusal(files + "---\n" + job(1, 1)).find("bytes that are read"),
            std::string::npos);
}

TEST(Kubernetes, TheOperatorTellsThePodsHowManyTheyAre) {
  const std::string text = R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              command: [bash, -c, "torchrun --nnodes $PET_NNODES pretrain_gpt.py"]
              resources: {limits: {nvidia.com/gpu: 8}}
    Worker:
      replicas: 3
      template:
        spec:
          containers:
            - name: pytorch
              resources: {limits: {nvidia.com/gpu: 8}}
)";
  const auto manifest = read_manifest(text, "job.yaml");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->environment.at("PET_NNODES"), "4");
  EXPECT_EQ(manifest->environment.at("PET_NPROC_PER_NODE"), "8");
  EXPECT_EQ(manifest->environment.at("WORLD_SIZE"), "32");
}

TEST(Kubernetes, TheContainersVariablesAreExportedAndCanBeChanged) {
  const std::string text = R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              env: [{name: HCCL_CONNECT_TIMEOUT, value: "60"}, {name: TP, value: "1"}]
              command: [bash, -c, "export TP=4; torchrun pretrain_gpt.py --num-layers 4
                --hidden-size 64 --num-attention-heads 4 --tensor-model-parallel-size $TP"]
              resources:
                limits: {huawei.com/Ascend910: 8, huawei.com/npu-memory: 65536}
)";
  const CheckReport report = check_text(text, "job.yaml", {});
  EXPECT_EQ(report.world_size, 16);
  EXPECT_EQ(report.job.layout.tp, 4);
  bool judged = false;
  for (const CheckProblem& problem : report.problems) {
    judged = judged || problem.key == "HCCL_CONNECT_TIMEOUT";
    EXPECT_NE(problem.key, "replicas") << problem.rule;
  }
  EXPECT_TRUE(judged);
}

TEST(Kubernetes, WordsOfACommand) {
  const auto script_of = [](const std::string& command) {
    const std::string text =
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n"
        "        - name: t\n          env: [{name: N, value: \"4\"}]\n          command: " +
        command + "\n";
    return read_manifest(text, "job.yaml")->script;
  };
  EXPECT_EQ(script_of("[/bin/bash, -ec, torchrun a.py]"), "torchrun a.py ");
  EXPECT_EQ(script_of("[bash, -o, pipefail, -c, torchrun a.py]"), "torchrun a.py ");
  EXPECT_EQ(script_of("[torchrun, --nproc_per_node=$(N), a.py, -c, x]"),
            "torchrun --nproc_per_node=4 a.py -c x ");
}

TEST(Kubernetes, AConfigMapAloneIsItsScript) {
  const std::string text =
      "apiVersion: v1\nkind: ConfigMap\ndata:\n  notes.txt: hello\n  train.sh: |\n"
      "    torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 4\n";
  const auto manifest = read_manifest(text, "map.yaml");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->script_name, "train.sh");
  EXPECT_FALSE(read_manifest("apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n", "map.yaml"));
}

}  // namespace
}  // namespace plait
