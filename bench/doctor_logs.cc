// How fast plait doctor reads logs: writes SIZE_MIB of log lines of every kind to a folder (RANKS
// files), diagnoses it with THREADS threads and prints time and peak memory. The last line of one
// rank holds a fault that must be found.
//   doctor_logs FOLDER [SIZE_MIB=1024] [RANKS=8] [THREADS=2]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "doctor/diagnosis.h"

namespace plait {
namespace {

constexpr const char* kLines[] = {
    "[INFO] HCCL({0},python):2025-11-22-17:37:{1:02}.447.996 [op_base.cc:413][{0}]Entry-"
    "HcclAllReduce:tag[AllReduce_192.0.2.9%eth0_60000_0_17], count[4194304], dataType[bfp16]\n",
    "[INFO] RUNTIME({0},python):2025-11-22-17:37:{1:02}.447.997 [stream.cc:1084] {0} "
    "StreamSynchronize: stream_id=2, task_id=17983, flip_num=0\n",
    " iteration {1:8}/  500000 | consumed samples: {0:12} | elapsed time per iteration (ms): "
    "2042.1 | learning rate: 1.0E-05 | lm loss: 1.02E+01 | loss scale: 1.0 | grad norm: 2.1\n",
    "INFO 06-17 02:21:{1:02} [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 41.2 tokens/s, Running: 4 reqs, Waiting: 0 reqs\n",
    "[WARNING] TBE({0},python):2025-11-22-17:37:{1:02}.447.998 [te.py:12][{0}] cache miss\n"};

void write_log(const std::string& path, int64_t bytes, int rank) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::string block;
  for (int i = 0; i < 4096; ++i) {
    block += fmt::format(fmt::runtime(kLines[i % 5]), 40000 + rank, i % 60);
  }
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(block.size())) {
    std::fwrite(block.data(), 1, block.size(), file);
  }
  if (rank == 3) {
    std::fputs("EL0004: [PID: 40003] 2025-11-22-17:38:00.000.000 Failed to allocate memory.\n",
               file);
  }
  std::fclose(file);
}

int run(int argc, char** argv) {
  const std::string folder = argv[1];
  const int64_t mib = argc > 2 ? std::atoll(argv[2]) : 1024;
  const int ranks = argc > 3 ? std::atoi(argv[3]) : 8;
  ScanOptions options;
  options.num_threads = argc > 4 ? std::atoi(argv[4]) : 2;
  std::filesystem::create_directories(folder);
  for (int rank = 0; rank < ranks; ++rank) {
    write_log(fmt::format("{}/rank_{}.log", folder, rank), (mib << 20) / ranks, rank);
  }
  const auto begin = std::chrono::steady_clock::now();
  RuleSet rules;
  rules.build_search();
  const Diagnosis diagnosis = diagnose(scan_logs({folder}, rules, options), rules);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  std::printf("%lld MiB in %lld lines of %d files: %.2f s, %.0f MiB/s, peak %ld MiB, %s, rank %s\n",
              static_cast<long long>(diagnosis.bytes >> 20),
              static_cast<long long>(diagnosis.num_lines), ranks, elapsed.count(),
              static_cast<double>(diagnosis.bytes >> 20) / elapsed.count(), usage.ru_maxrss / 1024,
              diagnosis.name.c_str(), diagnosis.guilty.rank.c_str());
  std::printf("CPU time of the process, writing included: %.0f s\n", cpu);
  return diagnosis.name == "device-oom" ? 0 : 1;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: doctor_logs FOLDER [SIZE_MIB] [RANKS] [THREADS]\n", stderr);
    return 2;
  }
  return plait::run(argc, argv);
}
