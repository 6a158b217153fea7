#include <algorithm>

#include <fmt/format.h>

#include "calibrate/calibrate.h"

namespace plait {
namespace {

// A TOML basic string.
std::string quoted(std::string text) {
  std::erase_if(
      text, [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; });
  return '"' + text + '"';
}

std::string figure(const char* key, const Sourced& sourced) {
  return fmt::format("{} = {{ value = {:.6e}, provenance = \"{}\", source = {} }}\n", key,
                     sourced.value, provenance_name(sourced.provenance), quoted(sourced.source));
}

std::string link_text(const char* level, const Cluster& cluster, const Link& link) {
  std::string text = fmt::format("[cluster.{}.{}]\n", cluster.name, level);
  text += figure("bandwidth", link.bandwidth) + figure("latency_s", link.latency_s) +
          figure("efficiency", link.efficiency) + figure("half_bytes", link.half_bytes);
  return link.full_mesh ? text + "full_mesh = true\n" : text;
}

}  // namespace

std::string cluster_file_text(const Cluster& cluster) {
  const Chip& chip = cluster.chip;
  std::string text = fmt::format("[chip.{}]\n", chip.name);
  const std::pair<const char*, const Sourced*> figures[] = {
      {"memory_bytes", &chip.memory_bytes},
      {"reserve_bytes", &chip.reserve_bytes},
      {"peak_16bit", &chip.peak_16bit},
      {"peak_f32", &chip.peak_f32},
      {"memory_bandwidth", &chip.memory_bandwidth},
      {"gemm_efficiency", &chip.gemm_efficiency},
      {"gemm_half_flops", &chip.gemm_half_flops},
      {"attention_efficiency", &chip.attention_efficiency},
      {"memory_efficiency", &chip.memory_efficiency},
      {"launch_s", &chip.launch_s}};
  for (const auto& [key, sourced] : figures) {
    text += figure(key, *sourced);
  }
  if (!chip.bf16) {
    text += "bf16 = false\n";
  }
  for (const auto& [key, sourced] :
       {std::pair("stream_bandwidth", &chip.stream_bandwidth),
        std::pair("gemm_weight_bandwidth", &chip.gemm_weight_bandwidth)}) {
    if (sourced->value > 0) {
      text += figure(key, *sourced);
    }
  }
  text += fmt::format("\n[cluster.{}]\nchip = \"{}\"\ndevices_per_server = {}\nservers = {}\n",
                      cluster.name, chip.name, cluster.devices_per_server, cluster.servers);
  if (cluster.cores > 0) {
    text +=
        fmt::format("cores = {}\nthreads_per_rank = {}\n", cluster.cores, cluster.threads_per_rank);
  }
  if (cluster.host_bandwidth.value > 0) {
    text += figure("host_bandwidth", cluster.host_bandwidth);
  }
  if (cluster.crowded_share.value > 0) {
    text += figure("crowded_share", cluster.crowded_share);
  }
  text += figure("congestion", cluster.congestion) + figure("uncertainty", cluster.uncertainty);
  if (cluster.intra.bandwidth.value > 0) {
    text += link_text("intra", cluster, cluster.intra);
  }
  if (cluster.inter.bandwidth.value > 0) {
    text += link_text("inter", cluster, cluster.inter);
  }
  return text;
}

}  // namespace plait
