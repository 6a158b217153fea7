// Pre-flight checks over recorded states of hosts.
#include "doctor/env_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "doctor/run_command.h"
#include "support/test_files.h"

namespace plait {
namespace {

EnvFacts healthy() {
  EnvFacts facts;
  facts["/usr/local/Ascend/driver/version.info"] =
      "Version=25.2.0\ncompatible_version_fw=[6.4.0,6.4.99],[7.0.0,7.7.99]\n";
  facts["/usr/local/Ascend/firmware/version.info"] = "Version=7.7.0.1.231\n";
  facts["/usr/local/Ascend/ascend-toolkit/latest/version.cfg"] =
      "runtime_running_version=[7.7.0.1.231:8.2.RC1]\n"
      "toolkit_running_version=[7.7.0.1.231:8.2.RC1]\n"
      "opp_kernel_running_version=[7.7.0.1.231:8.2.RC1]\n";
  facts["python packages"] =
      "torch 2.5.1+cpu\ntorch_npu 2.5.1.post1\nvllm 0.9.1\nvllm_ascend 0.9.1\n";
  facts["devices"] =
      "/dev/davinci0 660 uid 1000 gid 1000 usable\n/dev/davinci1 660 uid 1000 gid 1000 usable\n"
      "/dev/davinci_manager 660 uid 1000 gid 1000 usable\n"
      "/dev/devmm_svm 660 uid 1000 gid 1000 usable\n/dev/hisi_hdc 660 uid 1000 gid 1000 usable\n";
  facts["npu-smi info"] =
      "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages |\n"
      "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB) "
      "|\n"
      "| 0     910B3               | OK            | 94.6        49                0    / 0     |\n"
      "| 0                         | 0000:C1:00.0  | 0           0    / 0          3373 / 65536 |\n"
      "| 1     910B3               | OK            | 97.8        48                0    / 0     |\n"
      "| 0                         | 0000:01:00.0  | 0           0    / 0          3367 / 65536 |\n"
      "| NPU     Chip              | Process id    | Process name             | Memory(MB)      |\n"
      "| No running processes found in NPU 1                                                    "
      "|\n";
  for (const char* npu : {"0", "1"}) {
    const std::string tool = std::string("hccn_tool -i ") + npu;
    facts[tool + " -link -g"] = "link status: UP\n";
    facts[tool + " -net_health -g"] = "net health status: Success\n";
    facts[tool + " -optical -g"] = "present              : present\n";
    facts[tool + " -tls -g"] = "dev_id:0, tls switch[0](0:disable, 1:enable)\n";
    facts[std::string("npu-smi info -t ecc -i ") + npu] = "HBM Double Bit Error Cnt : 0\n";
  }
  facts["/etc/hccn.conf"] = "address_0=192.168.1.8\naddress_1=192.168.1.9\n";
  facts["rank table"] = R"({"device":[{"device_id":"0","device_ip":"192.168.1.8","rank_id":"0"}]})";
  facts["/proc/net/tcp"] = "  sl  local_address rem_address   st\n";
  facts["/proc/sys/net/ipv4/ip_local_reserved_ports"] = "60000-60031\n";
  facts["shm"] = "total 34359738368 free 34359738368\n";
  facts["/proc/meminfo"] = "MemAvailable:   500000000 kB\n";
  facts["/proc/self/limits"] =
      "Max stack size            8388608              unlimited            bytes\n"
      "Max processes             unlimited            unlimited            processes\n"
      "Max open files            1048576              1048576              files\n"
      "Max locked memory         unlimited            unlimited            bytes\n";
  facts["/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"] = "performance\n";
  facts["/sys/bus/pci/devices/0000:c1:00.0/numa_node"] = "1\n";
  facts["/sys/devices/system/node/node1/cpulist"] = "24-47\n";
  facts["environment"] =
      "ASCEND_HOME_PATH=/usr/local/Ascend/ascend-toolkit/latest\n"
      "LD_LIBRARY_PATH=/usr/local/Ascend/ascend-toolkit/latest/lib64\n"
      "ASCEND_RT_VISIBLE_DEVICES=0,1\nHCCL_CONNECT_TIMEOUT=600\n";
  return facts;
}

EnvCheck find(const EnvFacts& facts, const std::string& name) {
  for (const EnvCheck& check : check_env(facts)) {
    if (check.name == name) {
      return check;
    }
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}

CheckState state(const EnvFacts& facts, const std::string& name) {
  return find(facts, name).state;
}

TEST(Env, AHealthyHostPassesEveryCheck) {
  const std::vector<EnvCheck> checks = check_env(healthy());
  EXPECT_GE(checks.size(), 25U);
  std::set<std::string> names;
  for (const EnvCheck& check : checks) {
    EXPECT_EQ(check.state, CheckState::kOk) << check.name << ": " << check.evidence;
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
  }
  EXPECT_NE(find(healthy(), "numa").evidence.find("taskset -c 24-47"), std::string::npos);
}

TEST(Env, NothingIsKnownOfNothing) {
  for (const EnvCheck& check : check_env({})) {
    EXPECT_FALSE(check.evidence.empty()) << check.name;
  }
  EXPECT_EQ(state({}, "driver"), CheckState::kUnknown);
  EXPECT_EQ(state({}, "npu-health"), CheckState::kUnknown);
  EXPECT_EQ(state({}, "torch_npu-cann"), CheckState::kUnknown);
}

struct Change {
  const char* check;
  const char* fact;
  const char* value;
  CheckState state;
};

class EnvChange : public testing::TestWithParam<Change> {};

TEST_P(EnvChange, IsFound) {
  EnvFacts facts = healthy();
  facts[GetParam().fact] = GetParam().value;
  const EnvCheck check = find(facts, GetParam().check);
  EXPECT_EQ(check.state, GetParam().state) << check.evidence;
  if (check.state != CheckState::kUnknown) {
    EXPECT_FALSE(check.fix.empty());
  }
}

constexpr CheckState kBad = CheckState::kBad;
constexpr CheckState kWarning = CheckState::kWarning;

INSTANTIATE_TEST_SUITE_P(
    Faults, EnvChange,
    testing::Values(
        Change{"driver-firmware", "/usr/local/Ascend/firmware/version.info", "Version=6.3.0\n",
               kBad},
        Change{"cann", "/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
               "runtime_running_version=[7:8.2.RC1]\nopp_kernel_running_version=[7:8.0.RC2]\n",
               kBad},
        Change{"torch-torch_npu", "python packages", "torch 2.12.0\ntorch_npu 2.8.0.post2\n", kBad},
        Change{"torch_npu-cann", "python packages", "torch 2.7.1\ntorch_npu 2.7.1\n", kWarning},
        Change{"torch_npu-cann", "python packages", "torch 2.5.1\ntorch_npu 2.5.1.dev1\n",
               CheckState::kUnknown},
        Change{"vllm_ascend-vllm", "python packages",
               "torch 2.5.1\ntorch_npu 2.5.1.post1\nvllm 0.9.2\nvllm_ascend 0.9.1\n", kWarning},
        Change{"device-files", "devices", "/dev/davinci0 660 uid 0 gid 0 usable\n", kBad},
        Change{"device-rights", "devices", "/dev/davinci0 660 uid 1000 gid 1000 refused\n", kBad},
        Change{"visible-devices", "environment", "ASCEND_RT_VISIBLE_DEVICES=4\n", kBad},
        Change{"visible-devices", "environment", "ASCEND_RT_VISIBLE_DEVICES=0, 1\n", kBad},
        Change{
            "npu-health", "npu-smi info",
            "| 0  910B3 | Alarm | 94.6  49 0 / 0 |\n| 0 | 0000:C1:00.0 | 0 0 / 0 3373 / 65536 |\n",
            kBad},
        Change{"hbm-taken", "npu-smi info",
               "| 0  910B3 | OK | 94.6  49 0 / 0 |\n| 0 | 0000:C1:00.0 | 0 0 / 0 59784/ 65536 |\n",
               kWarning},
        Change{"left-over-processes", "npu-smi info",
               "| 0  910B3 | OK | 94.6  49 0 / 0 |\n| NPU Chip | Process id | Process name | M |\n"
               "| 0       0                 | 6277          | python    | 56485   |\n",
               kWarning},
        Change{"temperature", "npu-smi info", "| 0  910B3 | OK | 94.6  96 0 / 0 |\n", kBad},
        Change{"ecc", "npu-smi info -t ecc -i 1", "HBM Double Bit Error Cnt : 3\n", kWarning},
        Change{"link", "hccn_tool -i 1 -link -g", "link status: DOWN\n", kBad},
        Change{"tls", "hccn_tool -i 1 -tls -g", "dev_id:1, tls switch[1](0:disable)\n", kBad},
        Change{"optical", "hccn_tool -i 0 -optical -g", "optical info: none\n", kBad},
        Change{"net-health", "hccn_tool -i 0 -net_health -g", "net health status: Init\n", kBad},
        Change{"hccn-conf", "/etc/hccn.conf", "address_0=-.-.-.-\n", kBad},
        Change{"rank-table", "rank table", R"({"device_ip": "-.-.-.-"})", kBad},
        Change{"rank-table", "rank table", R"({"device_ip": "10.0.0.1"})", kBad},
        Change{"stale-rootinfo", "/etc/hccl_rootinfo.json", "{}", kWarning},
        Change{"hccl-ports", "/proc/net/tcp", "  0: 00000000:EA60 00000000:0000 0A 0\n", kBad},
        Change{"npu-port", "/proc/net/tcp", "  0: 00000000:411A 00000000:0000 0A 0\n", kBad},
        Change{"master-port", "/proc/net/tcp", "  0: 00000000:733C 00000000:0000 0A 0\n", kBad},
        Change{"reserved-ports", "/proc/sys/net/ipv4/ip_local_reserved_ports", "\n", kWarning},
        Change{"shared-memory", "shm", "total 67108864 free 67108864\n", kWarning},
        Change{"host-memory", "/proc/meminfo", "MemAvailable:  1000000 kB\n", kWarning},
        Change{"open-files", "/proc/self/limits", "Max open files   1024   1024   files\n",
               kWarning},
        Change{"locked-memory", "/proc/self/limits", "Max locked memory  65536 65536 bytes\n",
               kWarning},
        Change{"cpu-governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
               "powersave\n", kWarning},
        Change{"set_env", "environment", "HCCL_BUFFSIZE=200\n", kWarning},
        Change{"stub-libraries", "environment", "LD_LIBRARY_PATH=/a/Ascend/lib64/stub\n", kBad},
        Change{"interfaces", "environment", "HCCL_SOCKET_IFNAME=eth0\nGLOO_SOCKET_IFNAME=eth1\n",
               kWarning},
        Change{"variable-ranges", "environment", "HCCL_CONNECT_TIMEOUT=60\n", kBad},
        Change{"variable-ranges", "environment", "HCCL_RDMA_TC=133\n", kBad},
        Change{"HCCL_ALGO", "environment", "HCCL_ALGO=Tree\n", kBad},
        Change{"variable-names", "environment", "ALLOCATOR_FLAGS=pre_alloc_memory:0\n", kWarning},
        Change{"PYTORCH_NPU_ALLOC_CONF", "environment",
               "PYTORCH_NPU_ALLOC_CONF=max_split_size_mb=128\n", kBad},
        Change{"PYTORCH_NPU_ALLOC_CONF", "environment",
               "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128\n", kBad}));

TEST(Env, ARecordingReadsBackTheSame) {
  const TestFolder folder;
  write_env(healthy(), folder.file("state"));
  EXPECT_EQ(read_env(folder.file("state")), healthy());
  EXPECT_THROW(read_env(folder.file("absent")), Error);
}

TEST(Env, ThisHostIsReadWithoutSecrets) {
  ASSERT_EQ(setenv("HF_TOKEN", "hf_secret_of_the_test", 1), 0);
  for (const auto& [name, text] : gather_env()) {
    EXPECT_EQ(text.find("hf_secret_of_the_test"), std::string::npos) << name;
  }
  EXPECT_FALSE(fact(gather_env(), "/proc/meminfo").empty());
}

TEST(Env, ACommandThatHangsIsStopped) {
  const CommandResult slow = run_command({"sleep", "60"}, 0.2);
  EXPECT_TRUE(slow.started);
  EXPECT_TRUE(slow.timed_out);
  EXPECT_FALSE(run_command({"no-such-program-of-plait"}, 1).started);
  const CommandResult echo = run_command({"echo", "a b"}, 10);
  EXPECT_EQ(echo.output, "a b\n");
  EXPECT_EQ(echo.status, 0);
}

}  // namespace
}  // namespace plait
