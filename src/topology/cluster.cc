#include "topology/cluster.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "topology/cluster_file.h"

namespace plait {
namespace {

constexpr int64_t kDevicesMax = 1000000;

ClusterFile read_catalog() {
  return parse_cluster_file(std::string(cluster_catalog_text()), "catalog/clusters.toml", {});
}

const Cluster* find(const std::vector<Cluster>& clusters, const std::string& name) {
  const auto found = std::find_if(clusters.begin(), clusters.end(),
                                  [&](const Cluster& each) { return each.name == name; });
  return found == clusters.end() ? nullptr : &*found;
}

// "a100x8" -> "a100" and 8.
struct Counted {
  std::string name;
  std::optional<int64_t> servers;
};
Counted split_count(const std::string& text) {
  const size_t x = text.rfind('x');
  if (x == std::string::npos || x == 0 || x + 1 == text.size() || text.size() - x > 10) {
    return {text, {}};
  }
  int64_t servers = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + x + 1, end, servers);
  if (error != std::errc() || stop != end) {
    return {text, {}};
  }
  return {text.substr(0, x), servers};
}

Cluster with_servers(Cluster cluster, int64_t servers) {
  const int64_t most = kDevicesMax / cluster.devices_per_server;
  if (servers < 1 || servers > most) {
    throw_error(ErrorCode::kInvalidArgument,
                "cluster {}: {} servers; give 1 to {} of {} devices each", cluster.name, servers,
                most, cluster.devices_per_server);
  }
  if (servers > 1 && cluster.inter.bandwidth.value <= 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "cluster {}: {} servers, but no link between servers is described; describe it in "
                "[cluster.{}.inter] of a TOML file",
                cluster.name, servers, cluster.name);
  }
  cluster.servers = static_cast<int>(servers);
  return cluster;
}

// Links to devices that take no part stay idle.
Cluster part_of_server(Cluster cluster, int devices) {
  if (cluster.intra.full_mesh && devices > 1) {
    cluster.intra.bandwidth.value *=
        static_cast<double>(devices - 1) / static_cast<double>(cluster.devices_per_server - 1);
  }
  cluster.devices_per_server = devices;
  return cluster;
}

Cluster load_cluster_file(const std::string& path) {
  const ClusterFile catalog = read_catalog();
  ClusterFile file = parse_cluster_file(read_file(path), path, catalog.chips);
  if (file.clusters.size() != 1) {
    throw_error(ErrorCode::kCorruptData,
                "{}: {} clusters are described; keep exactly one "
                "[cluster.NAME]",
                path, file.clusters.size());
  }
  Cluster& cluster = file.clusters.front();
  return with_servers(cluster, cluster.servers);
}

bool looks_like_file(const std::string& text) {
  std::error_code ignored;
  return text.find('/') != std::string::npos || text.ends_with(".toml") ||
         std::filesystem::is_regular_file(text, ignored);
}

}  // namespace

double Cluster::core_share() const {
  const double wanted = static_cast<double>(devices_per_server) * threads_per_rank;
  return cores > 0 ? std::min(1.0, cores / wanted) : 1.0;
}

double Cluster::speed_share() const {
  if (cores <= threads_per_rank || crowded_share.value <= 0) {
    return 1;
  }
  const int64_t wanted = static_cast<int64_t>(devices_per_server) * threads_per_rank;
  const auto others = static_cast<double>(std::min<int64_t>(wanted, cores) - threads_per_rank);
  return 1 - (1 - crowded_share.value) * std::max(0.0, others) / (cores - threads_per_rank);
}

const char* provenance_name(Provenance provenance) {
  static constexpr const char* kNames[] = {"measured", "fitted", "datasheet", "assumed"};
  return kNames[static_cast<size_t>(provenance)];
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const Cluster& cluster : read_catalog().clusters) {
    names.push_back(cluster.name);
  }
  return names;
}

Cluster load_cluster(const std::string& name_or_file) {
  const ClusterFile catalog = read_catalog();
  const std::string given = lower(name_or_file);
  if (const Cluster* cluster = find(catalog.clusters, given)) {
    return *cluster;
  }
  const Counted counted = split_count(given);
  const Cluster* cluster = find(catalog.clusters, counted.name);
  if (counted.servers && cluster != nullptr) {
    return with_servers(*cluster, *counted.servers);
  }
  if (looks_like_file(name_or_file)) {
    return load_cluster_file(name_or_file);
  }
  const std::vector<std::string> names = cluster_names();
  const std::string nearest = nearest_name(counted.name, names);
  throw_error(
      ErrorCode::kNotFound,
      "cluster '{}' is unknown{}; known are {} (with xN for N servers), or give a TOML file",
      name_or_file.substr(0, 100),
      nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest), fmt::join(names, ", "));
}

Cluster with_devices(Cluster cluster, int devices) {
  const int per_server = cluster.devices_per_server;
  const bool takes_turns = cluster.cores > 0 && cluster.inter.bandwidth.value <= 0;
  if (devices < 1 || devices > kDevicesMax) {
    throw_error(ErrorCode::kInvalidArgument, "cluster {}: {} devices; allowed are 1 to {}",
                cluster.name, devices, kDevicesMax);
  }
  if (takes_turns) {
    return with_servers(part_of_server(std::move(cluster), devices), 1);
  }
  const int64_t least = (devices + per_server - 1) / per_server;
  int64_t servers = least;
  while (devices % servers != 0) {
    ++servers;
  }
  // Nobody takes a third of each server.
  if (servers > 1 && 2 * devices < servers * per_server) {
    throw_error(ErrorCode::kInvalidArgument,
                "cluster {}: {} devices make no equal parts of servers of {}; give {} or {}",
                cluster.name, devices, per_server, (least - 1) * per_server, least * per_server);
  }
  return with_servers(part_of_server(std::move(cluster), static_cast<int>(devices / servers)),
                      servers);
}

}  // namespace plait
