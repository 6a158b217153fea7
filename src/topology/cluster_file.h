// The TOML form of chips and clusters: the catalogue and users' files. Internal to topology/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster.h"

namespace plait {

struct ClusterFile {
  std::vector<Chip> chips;
  std::vector<Cluster> clusters;
};

// Chips and clusters in the order of their names. Clusters refer to chips of the file or to
// `known_chips`. Errors: kCorruptData naming origin, line and key (with the nearest one for an
// unknown key).
ClusterFile parse_cluster_file(const std::string& text, const std::string& origin,
                               const std::vector<Chip>& known_chips);

// The text of catalog/clusters.toml, built in.
std::string_view cluster_catalog_text();

}  // namespace plait
