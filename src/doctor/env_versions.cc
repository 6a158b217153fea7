// Versions against each other and against the projects' published tables.
#include <algorithm>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/csv.h"
#include "base/text.h"
#include "doctor/env_checks.h"

namespace plait {
namespace {

std::string package_version(const EnvFacts& facts, const std::string& name) {
  std::istringstream lines(fact(facts, "python packages"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) {
      const std::string version = line.substr(name.size() + 1);
      return version.substr(0, version.find('+'));  // 2.8.0+cpu
    }
  }
  return "";
}

// "[7.3.0.1.231:8.0.RC2]" -> "8.0.RC2".
std::string cann_version(const EnvFacts& facts) {
  for (const char* path : {"/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
                           "/usr/local/Ascend/cann/version.cfg"}) {
    const std::string version = value_of(fact(facts, path), "toolkit_running_version");
    if (!version.empty()) {
      return version.substr(version.rfind(':') + 1);
    }
  }
  return "";
}

std::vector<int> numbers_of(const std::string& version) {
  std::vector<int> numbers;
  std::istringstream parts(version);
  for (std::string part; std::getline(parts, part, '.');) {
    numbers.push_back(std::atoi(part.c_str()));
  }
  return numbers;
}

// "[6.4.0,6.4.99],[7.0.0,7.7.99]"
bool in_ranges(const std::string& version, std::string ranges) {
  std::replace_if(
      ranges.begin(), ranges.end(), [](char c) { return c == '[' || c == ']' || c == ','; }, ' ');
  std::istringstream words(ranges);
  std::string low;
  std::string high;
  while (words >> low >> high) {
    if (numbers_of(low) <= numbers_of(version) && numbers_of(version) <= numbers_of(high)) {
      return true;
    }
  }
  return false;
}

void check_driver(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  const std::string& driver = fact(facts, "/usr/local/Ascend/driver/version.info");
  const std::string version = value_of(driver, "Version");
  if (version.empty()) {
    checks.push_back({"driver", CheckState::kUnknown,
                      "/usr/local/Ascend/driver/version.info is not there",
                      "install the NPU driver, or mount /usr/local/Ascend/driver"});
    checks.push_back({"driver-firmware", CheckState::kUnknown, "no driver", ""});
    return;
  }
  checks.push_back({"driver", CheckState::kOk, "version " + version, ""});
  const std::string firmware =
      value_of(fact(facts, "/usr/local/Ascend/firmware/version.info"), "Version");
  std::string ranges;
  std::istringstream lines(driver);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("compatible_version_fw=")) {
      ranges = line.substr(22);
    }
  }
  if (firmware.empty() || ranges.empty()) {
    checks.push_back({"driver-firmware", CheckState::kUnknown,
                      "no firmware version, or the driver does not say what it accepts",
                      "compare npu-smi info -t board -i 0 with the driver's release notes"});
    return;
  }
  const bool fits = in_ranges(firmware, ranges);
  checks.push_back({"driver-firmware", fits ? CheckState::kOk : CheckState::kBad,
                    "firmware " + firmware + ", the driver accepts " + ranges,
                    fits ? "" : "install the firmware of the driver's package, then reboot"});
}

void check_cann(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  std::string config = fact(facts, "/usr/local/Ascend/ascend-toolkit/latest/version.cfg");
  if (config.empty()) {
    config = fact(facts, "/usr/local/Ascend/cann/version.cfg");
  }
  std::set<std::string> versions;
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find("_running_version=");
    if (equals != std::string::npos) {
      versions.insert(trimmed(line.substr(equals + 17), "[]\r"));
    }
  }
  if (versions.empty()) {
    checks.push_back({"cann", CheckState::kUnknown, "no version.cfg of a toolkit",
                      "install the CANN toolkit, or run this inside the container of the job"});
    return;
  }
  std::string all;
  for (const std::string& version : versions) {
    all += (all.empty() ? "" : ", ") + version;
  }
  const bool same = versions.size() == 1;
  checks.push_back({"cann", same ? CheckState::kOk : CheckState::kBad, "parts of CANN: " + all,
                    same ? "" : "install toolkit, kernels and runtime of one release"});
}

// The row of the table for a package of a version, as "cann" or "torch_npu" or "base".
std::string listed(const std::string& package, const std::string& version, const char* column) {
  const CsvTable table = parse_csv(std::string(ascend_versions_text()), "ascend_versions.csv");
  const auto index = static_cast<size_t>(table.column(column));
  for (const CsvRow& row : table.rows) {
    if (row.fields[0] == package && row.fields[1] == version) {
      return row.fields[index];
    }
  }
  return "";
}

// A pair that is not listed is unknown, never bad.
EnvCheck against_table(const std::string& name, const std::string& have,
                       const std::string& wanted) {
  if (have.empty() || wanted.empty()) {
    return {name, CheckState::kUnknown,
            have.empty() ? "not installed, or not found" : have + " is in no published table", ""};
  }
  // Community releases append .beta1 and the like to the commercial number.
  const bool fits = have == wanted || have.starts_with(wanted + ".");
  return {name, fits ? CheckState::kOk : CheckState::kWarning,
          "have " + have + ", the published table lists " + wanted,
          fits ? "" : "install the versions of one row of the table (docs/operations.md)"};
}

}  // namespace

void check_versions(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  check_driver(facts, checks);
  check_cann(facts, checks);
  const std::string torch = package_version(facts, "torch");
  const std::string torch_npu = package_version(facts, "torch_npu");
  const std::string vllm_ascend = package_version(facts, "vllm_ascend");
  const auto minor = [](const std::string& version) {
    std::vector<int> numbers = numbers_of(version);
    numbers.resize(2);
    return numbers;
  };
  if (torch.empty() || torch_npu.empty()) {
    checks.push_back(
        {"torch-torch_npu", CheckState::kUnknown, "torch or torch_npu is not found", ""});
  } else {
    const bool same = minor(torch) == minor(torch_npu);
    checks.push_back({"torch-torch_npu", same ? CheckState::kOk : CheckState::kBad,
                      "torch " + torch + ", torch_npu " + torch_npu,
                      same ? "" : "install the torch that this torch_npu was built for"});
  }
  checks.push_back(against_table("torch_npu-cann", torch_npu.empty() ? "" : cann_version(facts),
                                 listed("torch_npu", torch_npu, "cann")));
  checks.push_back(against_table("vllm_ascend-vllm",
                                 vllm_ascend.empty() ? "" : package_version(facts, "vllm"),
                                 listed("vllm_ascend", vllm_ascend, "base")));
  checks.push_back(against_table("vllm_ascend-torch_npu", vllm_ascend.empty() ? "" : torch_npu,
                                 listed("vllm_ascend", vllm_ascend, "torch_npu")));
}

}  // namespace plait
