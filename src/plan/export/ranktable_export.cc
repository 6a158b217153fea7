// HCCL rank tables: 1.0 for the A2, 1.2 for the A3 (super pods).
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "plan/export/exporters.h"
#include "plan/export/script.h"

namespace plait {
namespace {

constexpr size_t kLongestName = 64;

bool is_ip(const std::string& text) {
  // Digits, dots; or an IPv6 address.
  return !text.empty() && text.size() <= 45 &&
         text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string::npos &&
         text.find_first_of(".:") != std::string::npos;
}

// Stand-ins until the addresses are known.
std::vector<ServerAddress> placeholders(const Machines& machines, bool a3) {
  std::vector<ServerAddress> servers;
  for (int s = 0; s < machines.servers; ++s) {
    ServerAddress server;
    server.name = fmt::format("node{}", s);
    server.host_ip = fmt::format("NODE{}_HOST_IP", s);
    server.super_pod = "0";
    for (int d = 0; d < machines.per_server; ++d) {
      server.devices.push_back({fmt::format("NODE{}_DEVICE{}_IP", s, d),
                                a3 ? fmt::format("NODE{}_DEVICE{}_SDID", s, d) : ""});
    }
    servers.push_back(std::move(server));
  }
  return servers;
}

void check_servers(const std::vector<ServerAddress>& servers, const Machines& machines, bool a3) {
  if (static_cast<int>(servers.size()) != machines.servers) {
    throw_error(ErrorCode::kInvalidArgument,
                "the rank table needs {} servers of {} devices, but {} are listed",
                machines.servers, machines.per_server, servers.size());
  }
  for (const ServerAddress& server : servers) {
    if (static_cast<int>(server.devices.size()) != machines.per_server) {
      throw_error(ErrorCode::kInvalidArgument,
                  "server {} has {} device addresses, but the layout uses {} devices on each",
                  server.name, server.devices.size(), machines.per_server);
    }
    for (const DeviceAddress& device : server.devices) {
      if (a3 && device.super_id.empty()) {
        throw_error(ErrorCode::kInvalidArgument,
                    "server {}: device {} has no super device id; write IP/SDID (npu-smi info -t "
                    "spod-info shows it)",
                    server.name, device.ip);
      }
    }
  }
}

Json super_pods(const std::vector<ServerAddress>& servers) {
  Json pods = Json::array();
  for (const ServerAddress& server : servers) {
    const std::string id = server.super_pod.empty() ? "0" : server.super_pod;
    if (pods.empty() || pods.back()["super_pod_id"] != id) {
      pods.push_back({{"super_pod_id", id}, {"server_list", Json::array()}});
    }
    pods.back()["server_list"].push_back({{"server_id", server.name}});
  }
  return pods;
}

Json rank_table(const std::vector<ServerAddress>& servers, const Machines& machines, bool a3) {
  // Every value is a string in this format.
  Json list = Json::array();
  int rank = 0;
  for (const ServerAddress& server : servers) {
    Json entry = {{"server_id", server.name}};
    if (a3) {
      entry["host_ip"] = server.host_ip;
    }
    entry["device"] = Json::array();
    int id = 0;
    for (const DeviceAddress& device : server.devices) {
      Json item = {{"device_id", std::to_string(id++)}};
      // One server needs no device addresses.
      if (machines.servers > 1 || is_ip(device.ip)) {
        item["device_ip"] = device.ip;
      }
      if (a3) {
        item["super_device_id"] = device.super_id;
      }
      item["rank_id"] = std::to_string(rank++);
      entry["device"].push_back(std::move(item));
    }
    list.push_back(std::move(entry));
  }
  Json table = {{"status", "completed"},
                {"version", a3 ? "1.2" : "1.0"},
                {"server_count", std::to_string(servers.size())},
                {"server_list", std::move(list)}};
  if (a3) {
    table["super_pod_list"] = super_pods(servers);
  }
  return table;
}

// Prints a server's line of the file that --hosts reads.
std::string collect_script(const ExportRequest& request, bool a3) {
  const Machines machines = machines_of(request);
  std::string text = script_head(
      {.headline = headline(request),
       .kind = "ranktable",
       .directives = "",
       .usage = "Prints this server's line for `plait plan export --to ranktable --hosts FILE`: "
                "run it on\n"
                "every server, in the order of the ranks, and gather the lines in FILE.\n"});
  text += fmt::format(
      "conf=${{HCCN_CONF:-/etc/hccn.conf}}\nline=\"$(hostname) $(hostname -I | cut -d ' ' -f 1)\"\n"
      "for ((device = 0; device < {}; ++device)); do\n"
      "  address=$(sed -n \"s/^address_$device=//p\" \"$conf\")\n"
      "  : \"${{address:?$conf has no address_$device}}\"\n",
      machines.per_server);
  if (a3) {
    text +=
        "  sdid=$(npu-smi info -t spod-info -i $((device / 2)) -c $((device % 2)) | sed -n "
        "'s/.*SDID *: *//p')\n"
        "  : \"${sdid:?npu-smi shows no SDID of device $device}\"\n"
        "  address=$address/$sdid\n";
  }
  return text + "  line+=\" $address\"\ndone\necho \"$line\"\n";
}

}  // namespace

std::vector<ServerAddress> parse_servers(const std::string& text, const std::string& origin) {
  std::vector<ServerAddress> servers;
  std::set<std::string> names;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto fail = [&](const std::string& why) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}:{}: {}; a line is: NAME HOST_IP [pod=ID] DEVICE_IP[/SUPER_DEVICE_ID] ...",
                  origin, number, why);
    };
    std::istringstream words(line.substr(0, line.find('#')));
    ServerAddress server;
    if (!(words >> server.name)) {
      continue;
    }
    if (server.name.size() > kLongestName) {
      fail(fmt::format("the name of the server is longer than {} characters", kLongestName));
    }
    if (!names.insert(server.name).second) {
      fail(fmt::format("server {} is listed twice", server.name));
    }
    if (!(words >> server.host_ip) || !is_ip(server.host_ip)) {
      fail(fmt::format("'{}' is no address of a host", server.host_ip.substr(0, 60)));
    }
    for (std::string word; words >> word;) {
      if (word.starts_with("pod=")) {
        server.super_pod = word.substr(4);
        continue;
      }
      const size_t slash = word.find('/');
      DeviceAddress device;
      device.ip = word.substr(0, slash);
      device.super_id = slash == std::string::npos ? "" : word.substr(slash + 1);
      if (!is_ip(device.ip)) {
        fail(fmt::format("'{}' is no address of a device", device.ip.substr(0, 60)));
      }
      server.devices.push_back(std::move(device));
    }
    servers.push_back(std::move(server));
  }
  return servers;
}

std::vector<ServerAddress> load_servers(const std::string& path) {
  return parse_servers(read_file(path), path);
}

std::vector<ExportedFile> export_rank_table(const ExportRequest& request) {
  const bool a3 = is_a3(request.cluster.chip);
  const Machines machines = machines_of(request);
  Refusals no("a rank table");
  no.when(vendor_of(request.cluster.chip) != ChipVendor::kAscend,
          {fmt::format("chip {}", request.cluster.chip.name), "HCCL runs on Ascend NPUs"});
  no.check();
  const bool known = !request.servers.empty();
  const std::vector<ServerAddress> servers = known ? request.servers : placeholders(machines, a3);
  check_servers(servers, machines, a3);
  std::vector<ExportedFile> files = {
      {"rank_table.json", dump_json(rank_table(servers, machines, a3), 2) + "\n", false}};
  if (!known && (machines.servers > 1 || a3)) {
    files.push_back({"collect_hosts.sh", collect_script(request, a3), true});
  }
  return files;
}

}  // namespace plait
