#include "calibrate/calibrate.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/file.h"

namespace plait {
namespace {

Cluster written_and_read(const Cluster& cluster) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("plait_calibrate_" + std::to_string(::getpid()) + ".toml");
  write_file_atomic(path, cluster_file_text(cluster));
  Cluster read = load_cluster(path);
  std::filesystem::remove(path);
  return read;
}

void expect_between(const char* name, const Sourced& figure, double least, double most) {
  EXPECT_GE(figure.value, least) << name;
  EXPECT_LE(figure.value, most) << name;
  EXPECT_EQ(figure.provenance, Provenance::kMeasured) << name;
}

TEST(Calibrate, WritesAFileThatLoadClusterReads) {
  std::vector<std::string> said;
  CalibrateOptions options;
  options.threads = 1;
  options.quick = true;
  options.command = "the \"test\"";
  options.progress = [&](const std::string& line) { said.push_back(line); };
  const Cluster cluster = written_and_read(calibrate_machine(options));
  EXPECT_GE(said.size(), size_t{4});

  EXPECT_EQ(cluster.cores, available_cores());
  EXPECT_EQ(cluster.threads_per_rank, 1);
  EXPECT_EQ(cluster.devices(), available_cores());
  // Wide enough for sanitisers, emulators and a busy machine.
  const Chip& chip = cluster.chip;
  expect_between("peak_f32", chip.peak_f32, 1e7, 1e13);
  expect_between("peak_16bit", chip.peak_16bit, 1e7, 1e14);
  expect_between("gemm_efficiency", chip.gemm_efficiency, 0.01, 1);
  expect_between("gemm_half_flops", chip.gemm_half_flops, 0, 1e10);
  expect_between("gemm_weight_bandwidth", chip.gemm_weight_bandwidth, 0, 1e15);
  expect_between("attention_efficiency", chip.attention_efficiency, 0.001, 1);
  expect_between("memory_bandwidth", chip.memory_bandwidth, 1e7, 1e13);
  expect_between("memory_efficiency", chip.memory_efficiency, 0.001, 1);
  expect_between("stream_bandwidth", chip.stream_bandwidth, 1e7, 1e13);
  expect_between("launch_s", chip.launch_s, 1e-9, 1e-2);
  expect_between("memory_bytes", chip.memory_bytes, 1e6, 1e14);
  expect_between("host_bandwidth", cluster.host_bandwidth, 1e7, 1e14);
  expect_between("crowded_share", cluster.crowded_share, 0.001, 1);
  expect_between("latency_s", cluster.intra.latency_s, 0, 1);
  expect_between("bandwidth", cluster.intra.bandwidth, 1e5, 1e13);
  expect_between("efficiency", cluster.intra.efficiency, 0.001, 1);
  expect_between("half_bytes", cluster.intra.half_bytes, 0, 1e11);
  EXPECT_NE(chip.peak_f32.source.find("the test"), std::string::npos) << chip.peak_f32.source;
  EXPECT_NE(chip.peak_f32.source.find(", 1 of "), std::string::npos) << chip.peak_f32.source;
}

TEST(Calibrate, MoreThreadsThanCoresAreRefused) {
  CalibrateOptions options;
  options.threads = available_cores() + 1;
  EXPECT_THROW(calibrate_machine(options), Error);
}

TEST(Calibrate, ABandwidthThatCouldNotBeToldIsSaidInWords) {
  Cluster cluster = load_cluster("910b3");
  cluster.chip.gemm_weight_bandwidth = {};
  EXPECT_NE(calibration_text(cluster).find("weights too fast to tell\n"), std::string::npos)
      << calibration_text(cluster);
  cluster.chip.gemm_weight_bandwidth.value = 12.34e9;
  EXPECT_NE(calibration_text(cluster).find("weights 12.3 GB/s\n"), std::string::npos)
      << calibration_text(cluster);
}

TEST(Calibrate, EveryFigureOfACatalogueClusterSurvivesTheFile) {
  const Cluster cluster = load_cluster("910b3x4");
  const Cluster read = written_and_read(cluster);
  EXPECT_EQ(read.servers, 4);
  EXPECT_EQ(read.devices_per_server, cluster.devices_per_server);
  EXPECT_EQ(read.intra.full_mesh, cluster.intra.full_mesh);
  EXPECT_EQ(read.cores, 0);
  const std::pair<Sourced, Sourced> figures[] = {
      {read.chip.peak_16bit, cluster.chip.peak_16bit},
      {read.chip.reserve_bytes, cluster.chip.reserve_bytes},
      {read.intra.bandwidth, cluster.intra.bandwidth},
      {read.inter.half_bytes, cluster.inter.half_bytes},
      {read.congestion, cluster.congestion}};
  for (const auto& [ours, theirs] : figures) {
    EXPECT_NEAR(ours.value, theirs.value, 1e-6 * theirs.value);
    EXPECT_EQ(ours.provenance, theirs.provenance);
    EXPECT_EQ(ours.source, theirs.source);
  }
}

}  // namespace
}  // namespace plait
