#include "topology/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "support/test_files.h"
#include "topology/cluster_file.h"

namespace plait {
namespace {

constexpr const char* kFile = R"(
[chip.mine]
memory_bytes = 6.4e10
peak_16bit = { value = 3e14, provenance = "datasheet", source = "vendor" }
peak_f32 = 2e13
memory_bandwidth = 2e12
[cluster.lab]
chip = "mine"
devices_per_server = 4
servers = 2
[cluster.lab.intra]
bandwidth = 1e11
latency_s = 1e-6
full_mesh = true
[cluster.lab.inter]
bandwidth = 1e10
latency_s = 5e-6
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_error(const std::function<void()>& action, ErrorCode code,
                  const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error_code_name(error.code()), error_code_name(code)) << error.message();
    for (const std::string& part : parts) {
      EXPECT_NE(error.message().find(part), std::string::npos) << part << "\n" << error.message();
    }
  }
}

void expect_file_error(const std::string& text, const std::vector<std::string>& parts) {
  expect_error([&] { parse_cluster_file(text, "c.toml", {}); }, ErrorCode::kCorruptData, parts);
}

void expect_sourced(const Sourced& figure, const std::string& what) {
  EXPECT_FALSE(figure.source.empty()) << what;
  EXPECT_EQ(figure.source.find("default"), std::string::npos) << what;
  EXPECT_EQ(figure.source.find("catalog/"), std::string::npos) << what << " has no source";
}

void expect_link_sourced(const Link& link, const std::string& what) {
  expect_sourced(link.bandwidth, what + " bandwidth");
  expect_sourced(link.latency_s, what + " latency_s");
  expect_sourced(link.efficiency, what + " efficiency");
  expect_sourced(link.half_bytes, what + " half_bytes");
}

TEST(Cluster, EveryFigureOfTheCatalogueHasASource) {
  for (const std::string& name : cluster_names()) {
    SCOPED_TRACE(name);
    const Cluster cluster = load_cluster(name);
    EXPECT_EQ(cluster.name, name);
    for (const auto& [figure, what] :
         {std::pair(&Chip::memory_bytes, "memory_bytes"),
          std::pair(&Chip::reserve_bytes, "reserve_bytes"),
          std::pair(&Chip::peak_16bit, "peak_16bit"), std::pair(&Chip::peak_f32, "peak_f32"),
          std::pair(&Chip::memory_bandwidth, "memory_bandwidth"),
          std::pair(&Chip::gemm_efficiency, "gemm_efficiency"),
          std::pair(&Chip::gemm_half_flops, "gemm_half_flops"),
          std::pair(&Chip::attention_efficiency, "attention_efficiency"),
          std::pair(&Chip::memory_efficiency, "memory_efficiency"),
          std::pair(&Chip::launch_s, "launch_s")}) {
      expect_sourced(cluster.chip.*figure, what);
    }
    expect_link_sourced(cluster.intra, "intra");
    if (cluster.inter.bandwidth.value > 0) {
      expect_link_sourced(cluster.inter, "inter");
      expect_sourced(cluster.congestion, "congestion");
    }
    EXPECT_LT(cluster.chip.reserve_bytes.value, cluster.chip.memory_bytes.value / 4);
  }
}

TEST(Cluster, TheCatalogueHasTheChipsThatPeopleAskFor) {
  const std::vector<std::string> names = cluster_names();
  for (const char* name : {"910b1", "910b2", "910b3", "910b4", "910c", "310p3", "a100", "a100-40g",
                           "a800", "h100", "h800", "h20", "l20", "v100", "cpu"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  const Cluster a2 = load_cluster("910B3");
  EXPECT_EQ(a2.devices_per_server, 8);
  EXPECT_TRUE(a2.intra.full_mesh);
  EXPECT_DOUBLE_EQ(a2.chip.memory_bytes.value, 64.0 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(a2.chip.peak_16bit.value, 294.9e12);
  EXPECT_DOUBLE_EQ(a2.intra.bandwidth.value, 7 * 28e9);
  EXPECT_DOUBLE_EQ(a2.inter.bandwidth.value, 25e9);
  EXPECT_FALSE(load_cluster("v100").chip.bf16);
  EXPECT_FALSE(load_cluster("310p3").chip.bf16);
  EXPECT_TRUE(a2.chip.bf16);
  EXPECT_EQ(load_cluster("a100").chip.gemm_efficiency.provenance, Provenance::kFitted);
}

TEST(Cluster, ANameMayCarryANumberOfServers) {
  EXPECT_EQ(load_cluster("A100x8").devices(), 64);
  EXPECT_EQ(load_cluster("910b3x16").servers, 16);
  EXPECT_EQ(load_cluster("a100-40gx2").chip.name, "a100-40g");
  EXPECT_EQ(load_cluster("910cx2").devices(), 32);
  for (const char* name : {"a100x0", "a100x-1", "a100x125001", "cpux2"}) {
    expect_error([&] { load_cluster(name); }, ErrorCode::kInvalidArgument, {"cluster"});
  }
  for (const char* name : {"a100x", "x8", "a100x8x", "a100x99999999999999999999", ""}) {
    expect_error([&] { load_cluster(name); }, ErrorCode::kNotFound, {"known are", "910b3"});
  }
  expect_error([] { load_cluster("910b33x4"); }, ErrorCode::kNotFound, {"did you mean '910b3'"});
}

TEST(Cluster, DevicesAreWholeServersOrEqualParts) {
  const Cluster a100 = load_cluster("a100");
  EXPECT_EQ(with_devices(a100, 64).servers, 8);
  EXPECT_EQ(with_devices(a100, 2).devices_per_server, 2);
  EXPECT_EQ(with_devices(with_devices(a100, 64), 8).servers, 1);
  EXPECT_EQ(with_devices(a100, 2).intra.bandwidth.value, a100.intra.bandwidth.value);
  // A full mesh keeps the links among those that take part.
  EXPECT_DOUBLE_EQ(with_devices(load_cluster("910b3"), 4).intra.bandwidth.value, 3 * 28e9);
  EXPECT_DOUBLE_EQ(with_devices(load_cluster("910b3"), 16).intra.bandwidth.value, 7 * 28e9);
  // As few servers as have an equal part.
  EXPECT_EQ(with_devices(a100, 12).servers, 2);
  EXPECT_EQ(with_devices(a100, 12).devices_per_server, 6);
  EXPECT_DOUBLE_EQ(with_devices(load_cluster("910b3"), 12).intra.bandwidth.value, 5 * 28e9);
  expect_error([&] { with_devices(a100, 13); }, ErrorCode::kInvalidArgument, {"8 or 16"});
  for (const int devices : {0, -8, 2000000}) {
    expect_error([&] { with_devices(a100, devices); }, ErrorCode::kInvalidArgument, {"a100"});
  }
  expect_error([] { with_devices(load_cluster("cpu"), 4); }, ErrorCode::kInvalidArgument,
               {"[cluster.cpu.inter]"});
}

TEST(Cluster, AFileOfTheUser) {
  const TestFolder folder;
  const std::string path = folder.file("mine.toml");
  write_file_atomic(path, kFile);
  const Cluster cluster = load_cluster(path);
  EXPECT_EQ(cluster.name, "lab");
  EXPECT_EQ(cluster.devices(), 8);
  EXPECT_EQ(cluster.chip.peak_16bit.source, "vendor");
  EXPECT_EQ(cluster.chip.peak_16bit.provenance, Provenance::kDatasheet);
  EXPECT_EQ(cluster.chip.memory_bytes.provenance, Provenance::kAssumed);
  EXPECT_NE(cluster.chip.memory_bytes.source.find("mine.toml, line 3"), std::string::npos);
  EXPECT_TRUE(cluster.intra.full_mesh);
  EXPECT_FALSE(cluster.inter.full_mesh);
  EXPECT_EQ(cluster.congestion.value, 1.0);

  // A chip of the catalogue.
  write_file_atomic(path, replaced(kFile, "chip = \"mine\"", "chip = \"910b2\""));
  EXPECT_DOUBLE_EQ(load_cluster(path).chip.peak_16bit.value, 353.9e12);
  write_file_atomic(
      path, std::string(kFile) + "[cluster.two]\nchip = \"mine\"\ndevices_per_server = 1\n");
  expect_error([&] { load_cluster(path); }, ErrorCode::kCorruptData, {"2 clusters"});
  expect_error([&] { load_cluster(folder.file("nothere.toml")); }, ErrorCode::kNotFound,
               {"nothere.toml"});
}

TEST(Cluster, BadFilesAreRefusedByLineAndKey) {
  expect_file_error(replaced(kFile, "peak_f32", "peak_f23"),
                    {"c.toml: line 5", "chip.mine.peak_f23", "did you mean 'peak_f32'"});
  expect_file_error(replaced(kFile, "servers = 2", "server = 2"), {"line 10", "'servers'"});
  expect_file_error(replaced(kFile, "[cluster.lab]", "[clusters.lab]"), {"did you mean 'cluster'"});
  expect_file_error(replaced(kFile, "source = \"vendor\"", "from = \"vendor\""),
                    {"line 4", "from"});
  expect_file_error(replaced(kFile, "\"datasheet\"", "\"guess\""), {"guess", "measured"});
  expect_file_error(replaced(kFile, "memory_bytes = 6.4e10", ""), {"chip.mine.memory_bytes"});
  expect_file_error(replaced(kFile, "bandwidth = 1e10", ""), {"cluster.lab.inter.bandwidth"});
  expect_file_error(std::string(kFile).substr(0, std::string(kFile).find("[cluster.lab.inter]")),
                    {"cluster.lab.inter", "between servers"});
  expect_file_error(replaced(kFile, "[cluster.lab.intra]", "[cluster.lab.infra]"), {"'intra'"});
  expect_file_error(replaced(kFile, "chip = \"mine\"", "chip = \"mime\""), {"did you mean 'mine'"});
  expect_file_error(replaced(kFile, "chip = \"mine\"", ""), {"cluster.lab.chip is missing"});
  for (const char* value : {"0", "-1", "1e30", "nan", "inf", "\"64 GB\"", "[1]", "true", "{}"}) {
    expect_file_error(replaced(kFile, "6.4e10", value), {"line 3", "chip.mine.memory_bytes"});
  }
  for (const char* value : {"0", "-1", "1.5", "1000000000000", "\"8\""}) {
    expect_file_error(replaced(kFile, "servers = 2", std::string("servers = ") + value),
                      {"line 10", "cluster.lab.servers"});
  }
  expect_file_error(replaced(kFile, "full_mesh = true", "full_mesh = 1"), {"full_mesh"});
  expect_file_error("chip = 3", {"chip must be a table"});
  expect_file_error("[chip]\nmine = 3", {"chip.mine must be a table"});
  expect_file_error("[chip.\xc3\xa9]", {"c.toml"});
  expect_file_error("[)", {"c.toml"});
}

}  // namespace
}  // namespace plait
