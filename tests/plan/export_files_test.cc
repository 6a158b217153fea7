#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "export_jobs.h"
#include "plan/plan_texts.h"
#include "spec/run_file.h"
#include "train/train_config.h"

namespace plait {
namespace {

const ExportedFile& file_of(const std::vector<ExportedFile>& files, const std::string& ending) {
  for (const ExportedFile& file : files) {
    if (file.name.ends_with(ending)) {
      return file;
    }
  }
  throw_error(ErrorCode::kNotFound, "no file ends with {}", ending);
}

TEST(ExportDeepSpeed, BatchArithmeticAndZero) {
  ExportRequest request = export_request("llama-2-7b", "dp16.zero3");
  request.job.layout.recompute = Recompute::kFull;
  request.job.offload_optimizer = true;
  request.job.grad_bytes = 4;
  request.job.batch.micro_batch_size = 2;
  const std::vector<ExportedFile> files = export_plan(ExportKind::kDeepSpeed, request);
  const Json config = parse_json(file_of(files, ".json").text, "ds_config.json");
  EXPECT_EQ(config["train_batch_size"], 512);
  EXPECT_EQ(config["train_micro_batch_size_per_gpu"], 2);
  EXPECT_EQ(config["gradient_accumulation_steps"], 16);
  EXPECT_EQ(config["zero_optimization"]["stage"], 3);
  EXPECT_EQ(config["zero_optimization"]["offload_optimizer"]["device"], "cpu");
  EXPECT_EQ(config["bf16"]["enabled"], true);
  EXPECT_EQ(config["fp16"]["enabled"], false);
  EXPECT_EQ(config["data_types"]["grad_accum_dtype"], "fp32");
  EXPECT_FALSE(config.contains("tensor_parallel"));
  EXPECT_NE(files[0].text.find("--gradient_checkpointing\n"), std::string::npos);
  EXPECT_NE(files[0].text.find("--nnodes 2\n"), std::string::npos);
}

TEST(ExportDeepSpeed, WhatItCannotExpressIsNamed) {
  ExportRequest request = export_request("llama-2-70b", "dp1.tp8.pp4.vpp2.sp");
  std::string text = export_refusal(ExportKind::kDeepSpeed, request);
  EXPECT_NE(text.find("pp = 4"), std::string::npos) << text;
  EXPECT_NE(text.find("sp"), std::string::npos) << text;
  request = export_request("llama-2-7b", "dp2.cp4.tp2.zero1");
  request.job.layout.recompute = Recompute::kSelective;
  text = export_refusal(ExportKind::kDeepSpeed, request);
  EXPECT_NE(text.find("cp = 4"), std::string::npos) << text;
  EXPECT_NE(text.find("recompute = selective"), std::string::npos) << text;
  request = export_request("llama-2-7b", "dp4.tp2.zero1");
  const Json config =
      parse_json(file_of(export_plan(ExportKind::kDeepSpeed, request), ".json").text, "x");
  EXPECT_EQ(config["tensor_parallel"]["autotp_size"], 2);
}

TEST(ExportMindFormers, ValuesComeBack) {
  ExportRequest request = export_request("llama-2-13b", "dp2.tp4.pp2.sp.zero1");
  request.job.layout.stage_layers = {21, 19};
  request.job.layout.recompute = Recompute::kFull;
  request.job.recompute_layers = 5;
  const YAML::Node root =
      YAML::Load(file_of(export_plan(ExportKind::kMindFormers, request), ".yaml").text);
  const YAML::Node parallel = root["parallel_config"];
  EXPECT_EQ(parallel["data_parallel"].as<int>(), 2);
  EXPECT_EQ(parallel["model_parallel"].as<int>(), 4);
  EXPECT_EQ(parallel["pipeline_stage"].as<int>(), 2);
  EXPECT_EQ(parallel["micro_batch_num"].as<int>(), 256);
  EXPECT_TRUE(parallel["use_seq_parallel"].as<bool>());
  EXPECT_EQ(root["runner_config"]["batch_size"].as<int>(), 1);
  EXPECT_TRUE(root["parallel"]["enable_parallel_optimizer"].as<bool>());
  EXPECT_EQ(root["recompute_config"]["recompute"].as<std::vector<int>>(), (std::vector<int>{5, 5}));
  const YAML::Node model = root["model"]["model_config"];
  EXPECT_EQ(model["offset"].as<std::vector<int>>(), (std::vector<int>{1, -1}));
  EXPECT_EQ(model["num_layers"].as<int>(), 40);
  EXPECT_EQ(model["hidden_size"].as<int>(), 5120);
  EXPECT_EQ(model["intermediate_size"].as<int>(), 13824);
  EXPECT_EQ(model["seq_length"].as<int>(), 4096);
  EXPECT_EQ(model["compute_dtype"].as<std::string>(), "bfloat16");
}

TEST(ExportMindFormers, VirtualStagesAreLists) {
  ExportRequest request = export_request("llama-2-13b", "tp4.pp2.vpp2");
  request.job.layout.stage_layers = {11, 10, 10, 9};
  const YAML::Node root =
      YAML::Load(file_of(export_plan(ExportKind::kMindFormers, request), ".yaml").text);
  EXPECT_EQ(root["model"]["model_config"]["pp_interleave_num"].as<int>(), 2);
  EXPECT_EQ(root["model"]["model_config"]["offset"].as<std::vector<std::vector<int>>>(),
            (std::vector<std::vector<int>>{{1, 0}, {0, -1}}));
  EXPECT_TRUE(root["parallel"]["pipeline_config"]["pipeline_interleave"].as<bool>());
  EXPECT_NE(export_refusal(ExportKind::kMindFormers, export_request("mixtral-8x7b", "tp8.sp"))
                .find("experts"),
            std::string::npos);
}

TEST(ExportPlait, TheRunFileIsWhatTrainReads) {
  ExportRequest request = export_request("qwen3-0.6b", "dp2.tp2.pp2.sp.zero1", "a100");
  request.job.layout.stage_layers = {15, 13};
  request.job.layout.recompute = Recompute::kSelective;
  request.job.overlap_grad_reduce = true;
  const std::vector<ExportedFile> files = export_plan(ExportKind::kPlait, request);
  const std::string path = testing::TempDir() + "plait_export_run.toml";
  write_file_atomic(path, file_of(files, ".toml").text);
  TrainConfig config;
  apply_run_file(path, config);
  EXPECT_EQ(config.layout, "dp2.tp2.pp2.sp.zero1");
  EXPECT_EQ(config.stage_layers, (std::vector<int64_t>{15, 13}));
  EXPECT_EQ(config.recompute, "selective");
  EXPECT_EQ(config.precision, "bf16");
  EXPECT_EQ(config.global_batch_size, 512);
  EXPECT_EQ(config.micro_batch_size, 1);
  EXPECT_EQ(config.seq_len, 4096);
  EXPECT_EQ(config.ranks, 8);
  EXPECT_TRUE(config.overlap_grad_reduce);
  const ModelConfig model = parse_model_config(
      parse_json(file_of(files, "config.json").text, "config.json"), "config.json");
  EXPECT_EQ(model.num_layers, request.job.model.num_layers);
  EXPECT_EQ(model.qk_norm, true);
}

TEST(ExportPlait, WhatTrainCannotRunIsRefused) {
  EXPECT_NE(export_refusal(ExportKind::kPlait, export_request("mixtral-8x7b", "dp8")), "accepted");
  ExportRequest request = export_request("qwen3-0.6b", "dp2.tp2", "a100");
  request.job.lora.rank = 8;
  request.job.dropout = 0.1;
  const std::string text = export_refusal(ExportKind::kPlait, request);
  EXPECT_NE(text.find("lora"), std::string::npos) << text;
  EXPECT_NE(text.find("dropout"), std::string::npos) << text;
}

TEST(ExportKubernetes, VolcanoJob) {
  const ExportRequest request = export_request("llama-2-13b", "dp4.tp8.sp.zero1");
  const std::vector<ExportedFile> files = export_plan(ExportKind::kVolcano, request);
  const std::vector<YAML::Node> documents = YAML::LoadAll(files[0].text);
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0]["kind"].as<std::string>(), "ConfigMap");
  // The launch script inside is the one that the stack exports.
  EXPECT_EQ(documents[0]["data"]["a-job.sh"].as<std::string>(),
            export_plan(ExportKind::kMindSpeed, request).front().text);
  const YAML::Node& job = documents[1];
  EXPECT_EQ(job["apiVersion"].as<std::string>(), "batch.volcano.sh/v1alpha1");
  EXPECT_EQ(job["kind"].as<std::string>(), "Job");
  const YAML::Node spec = job["spec"];
  EXPECT_EQ(spec["minAvailable"].as<int>(), 4);
  EXPECT_EQ(spec["schedulerName"].as<std::string>(), "volcano");
  const YAML::Node task = spec["tasks"][0];
  EXPECT_EQ(task["replicas"].as<int>(), 4);
  const YAML::Node pod = task["template"];
  EXPECT_EQ(pod["metadata"]["labels"]["ring-controller.atlas"].as<std::string>(), "ascend-910b");
  EXPECT_EQ(pod["metadata"]["annotations"]["huawei.com/schedule_policy"].as<std::string>(),
            "chip8-node8");
  const YAML::Node container = pod["spec"]["containers"][0];
  for (const char* kind : {"limits", "requests"}) {
    EXPECT_EQ(container["resources"][kind]["huawei.com/Ascend910"].as<int>(), 8);
  }
  bool visible = false;
  for (const YAML::Node& variable : container["env"]) {
    visible = visible || variable["name"].as<std::string>() == "ASCEND_VISIBLE_DEVICES";
  }
  EXPECT_TRUE(visible);
}

TEST(ExportKubernetes, AscendJob) {
  const ExportRequest request = export_request("llama-2-13b", "dp2.tp8.sp.zero1");
  const std::vector<ExportedFile> files = export_plan(ExportKind::kAscendJob, request);
  const YAML::Node job = YAML::LoadAll(files[0].text)[1];
  EXPECT_EQ(job["apiVersion"].as<std::string>(), "mindxdl.gitee.com/v1");
  EXPECT_EQ(job["kind"].as<std::string>(), "AscendJob");
  EXPECT_EQ(job["metadata"]["labels"]["framework"].as<std::string>(), "pytorch");
  EXPECT_EQ(job["metadata"]["labels"]["fault-scheduling"].as<std::string>(), "grace");
  const YAML::Node spec = job["spec"];
  EXPECT_EQ(spec["runPolicy"]["schedulingPolicy"]["minAvailable"].as<int>(), 2);
  EXPECT_EQ(spec["runPolicy"]["schedulingPolicy"]["queue"].as<std::string>(), "default");
  EXPECT_EQ(spec["replicaSpecs"]["Master"]["replicas"].as<int>(), 1);
  EXPECT_EQ(spec["replicaSpecs"]["Worker"]["replicas"].as<int>(), 1);
  for (const char* role : {"Master", "Worker"}) {
    const YAML::Node pod = spec["replicaSpecs"][role]["template"];
    const YAML::Node container = pod["spec"]["containers"][0];
    EXPECT_EQ(container["name"].as<std::string>(), "ascend");
    EXPECT_EQ(container["ports"][0]["name"].as<std::string>(), "ascendjob-port");
    EXPECT_EQ(container["ports"][0]["containerPort"].as<int>(), 2222);
    EXPECT_EQ(container["resources"]["limits"]["huawei.com/Ascend910"].as<int>(), 8);
    bool table = false;
    for (const YAML::Node& mount : container["volumeMounts"]) {
      table = table || mount["mountPath"].as<std::string>() == "/user/serverid/devindex/config";
    }
    EXPECT_TRUE(table);
  }
  EXPECT_NE(
      export_refusal(ExportKind::kAscendJob, export_request("llama-2-13b", "dp2.tp8", "a100")),
      "accepted");
}

TEST(ExportRankTable, VersionOne) {
  ExportRequest request = export_request("llama-2-7b", "dp2.tp8");
  request.servers = parse_servers(
      "# two servers\n"
      "node0 10.0.0.1 1.0.0.1 1.0.0.2 1.0.0.3 1.0.0.4 1.0.0.5 1.0.0.6 1.0.0.7 1.0.0.8\n"
      "node1 10.0.0.2 1.0.1.1 1.0.1.2 1.0.1.3 1.0.1.4 1.0.1.5 1.0.1.6 1.0.1.7 1.0.1.8\n",
      "hosts");
  const std::vector<ExportedFile> files = export_plan(ExportKind::kRankTable, request);
  ASSERT_EQ(files.size(), 1u);
  const Json table = parse_json(files[0].text, files[0].name);
  EXPECT_EQ(table["status"], "completed");
  EXPECT_EQ(table["version"], "1.0");
  EXPECT_EQ(table["server_count"], "2");
  const Json& last = table["server_list"][1]["device"][7];
  EXPECT_EQ(last["device_id"], "7");
  EXPECT_EQ(last["device_ip"], "1.0.1.8");
  EXPECT_EQ(last["rank_id"], "15");
  EXPECT_FALSE(table.contains("super_pod_list"));
  request.servers.pop_back();
  EXPECT_NE(export_refusal(ExportKind::kRankTable, request).find("needs 2 servers"),
            std::string::npos);
}

TEST(ExportRankTable, SuperPods) {
  ExportRequest request = export_request("llama-2-7b", "dp4.tp8", "910c");
  std::string text;
  for (int s = 0; s < 2; ++s) {
    text +=
        "s" + std::to_string(s) + " 10.0.0." + std::to_string(s + 1) + " pod=" + std::to_string(s);
    for (int d = 0; d < 16; ++d) {
      text +=
          " 1.0." + std::to_string(s) + "." + std::to_string(d + 1) + "/" + std::to_string(100 + d);
    }
    text += "\n";
  }
  request.servers = parse_servers(text, "hosts");
  const Json table = parse_json(export_plan(ExportKind::kRankTable, request)[0].text, "x");
  EXPECT_EQ(table["version"], "1.2");
  EXPECT_EQ(table["server_list"][0]["host_ip"], "10.0.0.1");
  EXPECT_EQ(table["server_list"][1]["device"][3]["super_device_id"], "103");
  ASSERT_EQ(table["super_pod_list"].size(), 2u);
  EXPECT_EQ(table["super_pod_list"][1]["super_pod_id"], "1");
  EXPECT_EQ(table["super_pod_list"][1]["server_list"][0]["server_id"], "s1");
  request.servers[0].devices[0].super_id.clear();
  EXPECT_NE(export_refusal(ExportKind::kRankTable, request).find("super device id"),
            std::string::npos);
}

TEST(ExportRankTable, PlaceholdersComeWithTheScriptThatFillsThem) {
  const std::vector<ExportedFile> files =
      export_plan(ExportKind::kRankTable, export_request("llama-2-7b", "dp2.tp8"));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(parse_json(files[0].text, "x")["server_list"][1]["device"][0]["device_ip"],
            "NODE1_DEVICE0_IP");
  EXPECT_EQ(files[1].name, "collect_hosts.sh");
  // One server needs no addresses: the table is complete.
  const std::vector<ExportedFile> one =
      export_plan(ExportKind::kRankTable, export_request("llama-2-7b", "tp8"));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].text.find("NODE0"), std::string::npos);
}

TEST(ExportRankTable, BadHosts) {
  for (const char* text : {"node0\n", "node0 here\n", "node0 10.0.0.1 x!\n",
                           "a 10.0.0.1 1.1.1.1\na 10.0.0.2 1.1.1.2\n"}) {
    try {
      parse_servers(text, "hosts.txt");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("hosts.txt:"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace plait
