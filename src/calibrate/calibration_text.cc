#include <fmt/format.h>

#include "calibrate/calibrate.h"

namespace plait {

std::string calibration_text(const Cluster& cluster) {
  const Chip& chip = cluster.chip;
  const Link& link = cluster.intra;
  const double weights = chip.gemm_weight_bandwidth.value;
  return fmt::format(
      "a rank of {} threads, {} cores:\n"
      "  products     {:.1f} GFLOP/s f32, {:.1f} bf16; {:.0f} % of it large, half at {:.2g} "
      "MFLOP; weights {}\n"
      "  attention    {:.0f} % of the f32 peak\n"
      "  elementwise  {:.1f} GB/s in a layer; {:.1f} in the optimizer, {:.1f} all ranks\n"
      "  all cores    {:.0f} % of a rank's speed alone\n"
      "  kernel       {:.2f} us at least\n"
      "  collectives  {:.1f} us, {:.2f} GB/s\n",
      cluster.threads_per_rank, cluster.cores, chip.peak_f32.value * 1e-9,
      chip.peak_16bit.value * 1e-9, 100 * chip.gemm_efficiency.value,
      chip.gemm_half_flops.value * 1e-6,
      weights > 0 ? fmt::format("{:.1f} GB/s", weights * 1e-9) : "too fast to tell",
      100 * chip.attention_efficiency.value,
      chip.memory_bandwidth.value * chip.memory_efficiency.value * 1e-9,
      chip.stream_bandwidth.value * 1e-9, cluster.host_bandwidth.value * 1e-9,
      100 * cluster.crowded_share.value, chip.launch_s.value * 1e6, link.latency_s.value * 1e6,
      link.bandwidth.value * link.efficiency.value * 1e-9);
}

}  // namespace plait
