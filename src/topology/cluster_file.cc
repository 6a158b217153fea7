#include "topology/cluster_file.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"
#include "base/toml_full.h"

namespace plait {
namespace {

// A figure of a chip or a link: its key, the values that make sense, and what stands in for it.
template <typename T>
struct Figure {
  const char* key;
  Sourced T::*field;
  double least;
  double most;
  std::optional<double> fallback;  // none: the key is required
};

// The fallbacks are assumptions: a chip that nobody measured.
const std::vector<Figure<Chip>>& chip_figures() {
  static const std::vector<Figure<Chip>> figures = {
      {"memory_bytes", &Chip::memory_bytes, 1e6, 1e16, {}},
      {"reserve_bytes", &Chip::reserve_bytes, 0, 1e16, 0.0},
      {"peak_16bit", &Chip::peak_16bit, 1e6, 1e19, {}},
      {"peak_f32", &Chip::peak_f32, 1e6, 1e19, {}},
      {"memory_bandwidth", &Chip::memory_bandwidth, 1e6, 1e17, {}},
      {"gemm_efficiency", &Chip::gemm_efficiency, 1e-3, 1, 0.8},
      {"gemm_half_flops", &Chip::gemm_half_flops, 0, 1e16, 1e10},
      {"gemm_weight_bandwidth", &Chip::gemm_weight_bandwidth, 0, 1e17, 0.0},
      {"attention_efficiency", &Chip::attention_efficiency, 1e-3, 1, 0.5},
      {"memory_efficiency", &Chip::memory_efficiency, 1e-3, 1, 0.7},
      {"launch_s", &Chip::launch_s, 0, 1, 5e-6},
      {"stream_bandwidth", &Chip::stream_bandwidth, 1e6, 1e17, 0.0}};
  return figures;
}

const std::vector<Figure<Link>>& link_figures() {
  static const std::vector<Figure<Link>> figures = {
      {"bandwidth", &Link::bandwidth, 1e3, 1e16, {}},
      {"latency_s", &Link::latency_s, 0, 10, {}},
      {"efficiency", &Link::efficiency, 1e-3, 1, 0.7},
      {"half_bytes", &Link::half_bytes, 0, 1e12, 4e6}};
  return figures;
}

class Reader {
 public:
  Reader(const std::string& origin, const std::vector<Chip>& known_chips)
      : origin_(origin), known_chips_(known_chips) {}

  ClusterFile read(const toml::table& root) {
    check_keys(root, "", {"chip", "cluster"});
    ClusterFile file;
    for_each_table(root, "chip", [&](const std::string& name, const toml::table& table) {
      file.chips.push_back(read_chip(name, table));
    });
    chips_ = &file.chips;
    for_each_table(root, "cluster", [&](const std::string& name, const toml::table& table) {
      file.clusters.push_back(read_cluster(name, table));
    });
    return file;
  }

 private:
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw_error(ErrorCode::kCorruptData, "{}: line {}: {}", origin_, node.source().begin.line,
                what);
  }

  void check_keys(const toml::table& table, const std::string& path,
                  const std::vector<std::string>& allowed) const {
    for (auto entry = table.begin(); entry != table.end(); ++entry) {
      const std::string key(entry->first.str());
      if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
        const std::string nearest = nearest_name(key, allowed);
        fail(entry->second,
             fmt::format("unknown key '{}{}'{}; allowed are {}", path, key.substr(0, 100),
                         nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                         fmt::join(allowed, ", ")));
      }
    }
  }

  const toml::table& to_table(const toml::node& node, const std::string& path) const {
    if (!node.is_table()) {
      fail(node, fmt::format("{} must be a table, but is {}", path, toml_type_name(node)));
    }
    return *node.as_table();
  }

  template <typename Use>
  void for_each_table(const toml::table& root, const std::string& kind, Use&& use) const {
    const toml::node* tables = root.get(kind);
    if (tables == nullptr) {
      return;
    }
    const toml::table& all = to_table(*tables, kind);
    for (auto entry = all.begin(); entry != all.end(); ++entry) {
      const std::string name(entry->first.str());
      use(name, to_table(entry->second, kind + "." + name.substr(0, 100)));
    }
  }

  double number(const toml::node& node, const std::string& path) const {
    double value = NAN;
    if (const auto* real = node.as_floating_point()) {
      value = real->get();
    } else if (const auto* integer = node.as_integer()) {
      value = static_cast<double>(integer->get());
    }
    if (!std::isfinite(value)) {
      fail(node, fmt::format("{} must be a finite number{}, but is {}", path,
                             path.ends_with(".value") ? "" : " or { value = ..., source = ... }",
                             toml_type_name(node)));
    }
    return value;
  }

  std::string text(const toml::node& node, const std::string& path) const {
    const auto* value = node.as_string();
    if (value == nullptr) {
      fail(node, fmt::format("{} must be a string, but is {}", path, toml_type_name(node)));
    }
    return value->get();
  }

  Provenance provenance(const toml::node& node, const std::string& path) const {
    const std::string name = text(node, path);
    std::vector<std::string> names;
    for (const Provenance each : {Provenance::kMeasured, Provenance::kFitted,
                                  Provenance::kDatasheet, Provenance::kAssumed}) {
      if (name == provenance_name(each)) {
        return each;
      }
      names.emplace_back(provenance_name(each));
    }
    fail(node, fmt::format("{} is '{}', but must be one of {}", path, name.substr(0, 100),
                           fmt::join(names, ", ")));
  }

  Sourced figure(const toml::node& node, const std::string& path) const {
    Sourced result;
    result.source = fmt::format("{}, line {}", origin_, node.source().begin.line);
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      result.value = number(node, path);
      return result;
    }
    check_keys(*table, path + ".", {"value", "provenance", "source"});
    const toml::node* value = table->get("value");
    if (value == nullptr) {
      fail(node, fmt::format("{}.value is missing", path));
    }
    result.value = number(*value, path + ".value");
    if (const toml::node* given = table->get("provenance")) {
      result.provenance = provenance(*given, path + ".provenance");
    }
    if (const toml::node* given = table->get("source")) {
      result.source = text(*given, path + ".source");
    }
    return result;
  }

  template <typename T>
  void read_figures(const toml::table& table, const std::string& path,
                    const std::vector<Figure<T>>& figures, T& target) const {
    for (const Figure<T>& known : figures) {
      const toml::node* node = table.get(known.key);
      Sourced& sourced = target.*known.field;
      if (node == nullptr) {
        if (!known.fallback) {
          fail(table, fmt::format("{}{} is missing", path, known.key));
        }
        sourced = {*known.fallback, Provenance::kAssumed, "no figure given; plait's default"};
        continue;
      }
      sourced = figure(*node, path + known.key);
      if (!(sourced.value >= known.least && sourced.value <= known.most)) {
        fail(*node, fmt::format("{}{} is {}, but must be {} to {} (units: bytes, bytes/s, FLOP/s, "
                                "seconds)",
                                path, known.key, sourced.value, known.least, known.most));
      }
    }
  }

  template <typename T>
  std::vector<std::string> keys_of(const std::vector<Figure<T>>& figures) const {
    std::vector<std::string> keys;
    for (const Figure<T>& known : figures) {
      keys.emplace_back(known.key);
    }
    return keys;
  }

  Chip read_chip(const std::string& name, const toml::table& table) const {
    const std::string path = "chip." + name + ".";
    std::vector<std::string> keys = keys_of(chip_figures());
    keys.emplace_back("bf16");
    check_keys(table, path, keys);
    Chip chip;
    chip.name = name;
    read_figures(table, path, chip_figures(), chip);
    read_flag(table, path, "bf16", chip.bf16);
    return chip;
  }

  Link read_link(const toml::node& node, const std::string& path) const {
    const toml::table& table = to_table(node, path);
    std::vector<std::string> keys = keys_of(link_figures());
    keys.emplace_back("full_mesh");
    check_keys(table, path + ".", keys);
    Link link;
    read_figures(table, path + ".", link_figures(), link);
    read_flag(table, path + ".", "full_mesh", link.full_mesh);
    return link;
  }

  // Leaves `flag` as it is where the key is absent.
  void read_flag(const toml::table& table, const std::string& path, const char* key,
                 bool& flag) const {
    if (const toml::node* node = table.get(key)) {
      if (!node->is_boolean()) {
        fail(*node, fmt::format("{}{} must be true or false", path, key));
      }
      flag = node->as_boolean()->get();
    }
  }

  int count(const toml::table& table, const std::string& path, const char* key) const {
    static constexpr int64_t kMost = 1000000;
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      return 1;
    }
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < 1 || value->get() > kMost) {
      fail(*node, fmt::format("{}{} must be an integer from 1 to {}", path, key, kMost));
    }
    return static_cast<int>(value->get());
  }

  Chip find_chip(const toml::table& table, const std::string& path) const {
    const toml::node* node = table.get("chip");
    if (node == nullptr) {
      fail(table, path + "chip is missing");
    }
    const std::string name = text(*node, path + "chip");
    std::vector<std::string> names;
    for (const std::vector<Chip>* chips : {chips_, &known_chips_}) {
      for (const Chip& chip : *chips) {
        if (chip.name == name) {
          return chip;
        }
        names.push_back(chip.name);
      }
    }
    const std::string nearest = nearest_name(name, names);
    fail(*node, fmt::format("{}chip '{}' is unknown{}; known are {}", path, name.substr(0, 100),
                            nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                            fmt::join(names, ", ")));
  }

  Cluster read_cluster(const std::string& name, const toml::table& table) const {
    const std::string path = "cluster." + name + ".";
    check_keys(table, path,
               {"chip", "devices_per_server", "servers", "cores", "threads_per_rank",
                "host_bandwidth", "crowded_share", "intra", "inter", "congestion", "uncertainty"});
    Cluster cluster;
    cluster.name = name;
    cluster.chip = find_chip(table, path);
    cluster.devices_per_server = count(table, path, "devices_per_server");
    cluster.servers = count(table, path, "servers");
    cluster.cores = table.get("cores") != nullptr ? count(table, path, "cores") : 0;
    cluster.threads_per_rank = count(table, path, "threads_per_rank");
    const auto link = [&](const char* level, bool needed, Link& target) {
      const toml::node* node = table.get(level);
      if (node != nullptr) {
        target = read_link(*node, path + level);
      } else if (needed) {
        fail(table,
             fmt::format("{}{} is missing: describe the link {} with bandwidth and "
                         "latency_s in [{}{}]",
                         path, level,
                         level == std::string("intra") ? "inside a server" : "between servers",
                         path, level));
      }
    };
    link("intra", cluster.devices_per_server > 1, cluster.intra);
    link("inter", cluster.servers > 1, cluster.inter);
    static const std::vector<Figure<Cluster>> figures = {
        {"host_bandwidth", &Cluster::host_bandwidth, 1e6, 1e17, 0.0},
        {"crowded_share", &Cluster::crowded_share, 1e-3, 1, 1.0},
        {"congestion", &Cluster::congestion, 1e-3, 1, 1.0},
        {"uncertainty", &Cluster::uncertainty, 0, 1, 0.25}};
    read_figures(table, path, figures, cluster);
    return cluster;
  }

  const std::string& origin_;
  const std::vector<Chip>& known_chips_;
  const std::vector<Chip>* chips_ = nullptr;
};

}  // namespace

ClusterFile parse_cluster_file(const std::string& text, const std::string& origin,
                               const std::vector<Chip>& known_chips) {
  const toml::table root = parse_toml(text, origin, ErrorCode::kCorruptData);
  return Reader(origin, known_chips).read(root);
}

}  // namespace plait
