// The NPUs' network, the rank table, ports.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/text.h"
#include "doctor/env_checks.h"

namespace plait {
namespace {

// NPU number -> output of `hccn_tool -i N TOPIC -g`.
std::map<std::string, std::string> hccn_outputs(const EnvFacts& facts, const std::string& topic) {
  std::map<std::string, std::string> outputs;
  for (const auto& [name, text] : facts) {
    const std::string start = "hccn_tool -i ";
    const size_t end = name.find(" " + topic + " -g");
    if (name.starts_with(start) && end != std::string::npos) {
      outputs[name.substr(start.size(), end - start.size())] = text;
    }
  }
  return outputs;
}

// One check over all NPUs: `good` must be in each output.
EnvCheck every_npu(const EnvFacts& facts, const std::string& topic, const std::string& good) {
  const auto outputs = hccn_outputs(facts, topic);
  std::string wrong;
  for (const auto& [npu, text] : outputs) {
    if (lower(text).find(good) == std::string::npos) {
      wrong += "; NPU " + npu + ": " + trimmed(text.substr(0, text.find('\n')), " \t\r");
    }
  }
  EnvCheck check;
  if (outputs.empty()) {
    check.evidence = "hccn_tool " + topic + " -g gave nothing";
    check.fix = "put /usr/local/Ascend/driver/tools on PATH, or mount hccn_tool";
    return check;
  }
  check.state = wrong.empty() ? CheckState::kOk : CheckState::kBad;
  check.evidence =
      wrong.empty() ? fmt::format("{} NPUs: {}", outputs.size(), good) : wrong.substr(2);
  return check;
}

void add_named(std::vector<EnvCheck>& checks, EnvCheck check, const char* name, const char* fix) {
  check.name = name;
  if (check.state != CheckState::kUnknown) {
    check.fix = fix;
  }
  checks.push_back(std::move(check));
}

bool is_ipv4(const std::string& text) {
  int parts = 0;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, '.'); ++parts) {
    const bool number = !field.empty() && field.size() <= 3 &&
                        field.find_first_not_of("0123456789") == std::string::npos;
    if (!number || std::stoi(field) > 255) {
      return false;
    }
  }
  return parts == 4 && text != "0.0.0.0";
}

void check_addresses(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  std::set<std::string> configured;
  std::string wrong;
  std::istringstream lines(fact(facts, "/etc/hccn.conf"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("address_") && line.find('=') != std::string::npos) {
      const std::string address = trimmed(line.substr(line.find('=') + 1), " \t\r");
      wrong += is_ipv4(address) || address.find(':') != std::string::npos ? "" : " " + line;
      configured.insert(address);
    }
  }
  EnvCheck check{"hccn-conf", CheckState::kUnknown, "/etc/hccn.conf has no addresses",
                 "hccn_tool -i N -ip -s address A netmask M; cards without a port need none"};
  if (!configured.empty()) {
    check.state = wrong.empty() ? CheckState::kOk : CheckState::kBad;
    check.evidence =
        wrong.empty() ? fmt::format("{} addresses", configured.size()) : "no addresses:" + wrong;
  }
  checks.push_back(check);

  const std::string& table = fact(facts, "rank table");
  EnvCheck ranks{"rank-table", CheckState::kUnknown, "RANK_TABLE_FILE is not set", ""};
  if (!table.empty()) {
    std::string bad;
    for (size_t at = table.find("\"device_ip\""); at != std::string::npos;
         at = table.find("\"device_ip\"", at + 1)) {
      const size_t open = table.find('"', table.find(':', at));
      const size_t close = open == std::string::npos ? open : table.find('"', open + 1);
      if (close == std::string::npos) {
        break;
      }
      const std::string address = table.substr(open + 1, close - open - 1);
      bad += is_ipv4(address) || address.find(':') != std::string::npos ? "" : " '" + address + "'";
    }
    const bool here = configured.empty() ||
                      std::any_of(configured.begin(), configured.end(), [&](const std::string& a) {
                        return table.find("\"" + a + "\"") != std::string::npos;
                      });
    ranks.state = bad.empty() && here ? CheckState::kOk : CheckState::kBad;
    ranks.evidence = !bad.empty() ? "device_ip that is none:" + bad
                     : here       ? "its device addresses are addresses"
                                  : "it names no address of this host's /etc/hccn.conf";
    ranks.fix = "write the rank table again on this cluster";
  }
  checks.push_back(ranks);
  const bool stale = !fact(facts, "/etc/hccl_rootinfo.json").empty();
  checks.push_back({"stale-rootinfo", stale ? CheckState::kWarning : CheckState::kOk,
                    stale ? "/etc/hccl_rootinfo.json is there and is used when it is mounted"
                          : "no /etc/hccl_rootinfo.json",
                    "move it away unless it was written for this chip (1.0 A2, 1.2 A3, 2.0 A5)"});
}

// Ports that listen, from /proc/net/tcp: "  0: 0100007F:EA60 00000000:0000 0A ...".
std::set<int> listening(const EnvFacts& facts) {
  std::set<int> ports;
  for (const char* name : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(fact(facts, name));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string index;
      std::string local;
      std::string remote;
      std::string state;
      words >> index >> local >> remote >> state;
      const size_t colon = local.rfind(':');
      int port = 0;
      if (state == "0A" && colon != std::string::npos &&
          std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16).ec ==
              std::errc()) {
        ports.insert(port);
      }
    }
  }
  return ports;
}

void check_ports(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  const std::set<int> used = listening(facts);
  int base = std::atoi(variable(facts, "HCCL_IF_BASE_PORT").c_str());
  base = base > 0 ? base : 60000;
  int master = std::atoi(variable(facts, "MASTER_PORT").c_str());
  master = master > 0 ? master : 29500;
  const auto add = [&](const char* name, int first, int last, const char* fix) {
    std::string taken;
    for (int port = first; port <= last; ++port) {
      taken += used.contains(port) ? " " + std::to_string(port) : "";
    }
    const bool known = !fact(facts, "/proc/net/tcp").empty();
    checks.push_back({name,
                      !known          ? CheckState::kUnknown
                      : taken.empty() ? CheckState::kOk
                                      : CheckState::kBad,
                      taken.empty() ? fmt::format("{}-{} free", first, last) : "in use:" + taken,
                      fix});
  };
  add("hccl-ports", base, base + 31,
      "end the process (ss -ltnp), or HCCL_IF_BASE_PORT / HCCL_HOST_SOCKET_PORT_RANGE=auto");
  add("npu-port", 16666, 16666, "HCCL_NPU_SOCKET_PORT_RANGE=auto, or end the process");
  add("master-port", master, master, "end the process (ss -ltnp), or another MASTER_PORT");
  const std::string reserved =
      trimmed(fact(facts, "/proc/sys/net/ipv4/ip_local_reserved_ports"), " \n");
  const bool covers = reserved.find("60000") != std::string::npos;
  checks.push_back({"reserved-ports", covers ? CheckState::kOk : CheckState::kWarning,
                    "ip_local_reserved_ports: " + (reserved.empty() ? "none" : reserved),
                    "sysctl net.ipv4.ip_local_reserved_ports=60000-60031, or another program may "
                    "take HCCL's ports"});
}

}  // namespace

void check_network(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  add_named(checks, every_npu(facts, "-link", "up"), "link",
            "cable, optical module, switch port; hccn_tool -i N -link_stat -g");
  add_named(checks, every_npu(facts, "-net_health", "success"), "net-health",
            "gateway and detection address: hccn_tool -i N -netdetect -g");
  add_named(checks, every_npu(facts, "-optical", "present"), "optical",
            "reseat or replace the optical module");
  std::set<std::string> switches;
  for (const auto& [npu, text] : hccn_outputs(facts, "-tls")) {
    const size_t at = text.find("tls switch[");
    switches.insert(at == std::string::npos ? "?" : text.substr(at + 11, 1));
  }
  checks.push_back({"tls",
                    switches.empty()       ? CheckState::kUnknown
                    : switches.size() == 1 ? CheckState::kOk
                                           : CheckState::kBad,
                    switches.empty()       ? "hccn_tool -tls -g gave nothing"
                    : switches.size() == 1 ? "the switch is " + *switches.begin() + " on all NPUs"
                                           : "the switch differs between NPUs",
                    "hccn_tool -i N -tls -s enable 0 on all NPUs of all hosts (or 1 on all)"});
  check_addresses(facts, checks);
  check_ports(facts, checks);
}

}  // namespace plait
