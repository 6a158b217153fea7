#include "tidy/tables.h"

namespace plait::tidy {

const std::vector<IncludeRow>& include_table() {
  static const std::vector<IncludeRow> table = {
      {"base", {}},
      {"topology", {"spec"}},
      {"spec", {"topology"}},
      {"device", {}},
      {"tensor", {"device"}},
      {"comm", {"topology", "device"}},
      {"op", {"device", "tensor"}},
      {"nn", {"device", "tensor", "op"}},
      {"parallel", {"topology", "spec", "device", "tensor", "comm", "op", "nn"}},
      {"model", {"topology", "spec", "device", "tensor", "comm", "op", "nn", "parallel"}},
      {"checkpoint", {"topology", "spec", "device", "tensor", "comm", "parallel", "text"}},
      {"data", {"spec"}},
      {"text", {}},
      {"train",
       {"topology", "spec", "device", "tensor", "comm", "op", "nn", "parallel", "model",
        "checkpoint", "data", "text"}},
      {"serve",
       {"topology", "spec", "device", "tensor", "comm", "op", "nn", "parallel", "model",
        "checkpoint", "data", "text"}},
      // Needs neither ranks nor a device.
      {"plan", {"topology", "spec"}},
      // Measures what plan/ computes with.
      {"calibrate", {"topology", "device", "tensor", "comm", "op"}},
      {"comm_test", {"topology", "device", "comm"}},
      {"doctor", {"topology", "spec", "comm"}},
      {"profile", {"topology", "spec"}},
      {"agent", {"topology", "spec"}},
      // Stands in for a vendor's libraries, so it must not lean on the code that it tests.
      {"softnpu", {}},
      {"cli", {"topology", "spec",      "device",     "tensor", "comm",    "op",    "nn",
               "parallel", "model",     "checkpoint", "data",   "text",    "train", "serve",
               "plan",     "calibrate", "comm_test",  "doctor", "profile", "agent"}},
  };
  return table;
}

const std::vector<VendorRow>& vendor_table() {
  static const std::vector<VendorRow> table = {
      {"immintrin.h", {"src/comm/reduce_impl.h"}, true},
      {"x86intrin.h", {}, true},
      {"emmintrin.h", {}, true},
      {"xmmintrin.h", {}, true},
      {"arm_neon.h", {}, true},
      {"arm_sve.h", {}, true},
      {"cpuid.h", {"src/base/cpu_info.cc"}},
      {"hwy/", {"src/device/cpu/", "src/comm/"}},
      {"mpi.h", {"src/comm/mpi/", "tests/comm/mpi/", "tests/mpi/", "bench/"}},
      {"dnnl", {"src/device/cpu/", "bench/"}},
      {"oneapi/dnnl", {"src/device/cpu/", "bench/"}},
      {"acl/", {"src/device/ascend/"}},
      {"aclnn", {"src/device/ascend/"}},
      {"hccl/", {"src/comm/hccl/"}},
      {"boost/", {"src/serve/", "tests/serve/"}},
      {"CLI/", {"src/cli/", "tests/cli/"}},
      {"yaml-cpp/", {"src/plan/", "tests/plan/"}},
      {"sqlite3.h", {"src/profile/database.cc", "tests/profile/"}},
  };
  return table;
}

const std::vector<std::string>& heavy_headers() {
  static const std::vector<std::string> headers = {
      "nlohmann/json.hpp", "base/json_full.h", "base/toml_full.h", "CLI/",  "toml++/",
      "toml.hpp",          "yaml-cpp/",        "dnnl.hpp",         "boost/"};
  return headers;
}

const std::vector<BannedToken>& banned_tokens() {
  const std::vector<std::string> programs = {"src/cli/", "tests/", "bench/", "fuzz/"};
  static const std::vector<BannedToken> tokens = {
      {"std::cout", "return the text, or log through base/log.h", programs},
      {"printf(", "return the text, or log through base/log.h", programs},
      {"fprintf(",
       "log through base/log.h",
       {"src/base/error.cc", "src/base/log.cc", "src/train/step_log.cc", "src/cli/", "tests/",
        "bench/", "fuzz/"}},
      {"std::cerr", "log through base/log.h", programs},
      {"exit(", "throw Error; only the command line ends the process", programs},
      {"_exit(",
       "throw Error; only a signal's second call and a lost job end the process at once",
       {"src/comm/mpi/side_channel.cc", "src/train/stop_signal.cc", "src/cli/", "tests/",
        "bench/"}},
      {"getenv(",
       "take the value as an option; the environment is read at few listed places",
       {"src/base/cpu_info.cc", "src/comm/rank_runner.cc", "src/comm/mpi/",
        "src/device/guard/guard_stream.cc", "src/cli/", "tests/", "bench/"}},
      {"rand(", "draw from base/rng.h with a seed that the caller gives", {}},
      {"srand(", "draw from base/rng.h with a seed that the caller gives", {}},
      {"random_device",
       "draw from base/rng.h with a seed that the caller gives",
       {"src/comm/mpi/side_channel.cc"}},  // a secret, not a draw
      {"using namespace", "name what you use", {}},
      {"dynamic_cast", "ask the object through its interface", {}},
      {"views::", "use std::ranges algorithms or a loop; clang 14 rejects views", {}},
      {"std::format", "use fmt::format; g++ 12 has no <format>", {}},
      {"detach(", "keep the thread and join it", {}},
      {"sleep_for",
       "wait on what ends the wait, with a deadline",
       {"src/checkpoint/background_task.cc", "src/device/guard/guard_stream.cc", "tests/",
        "bench/"}},
      // MPI offers nothing to sleep on, so its folder polls.
      {"usleep(",
       "wait on what ends the wait, with a deadline",
       {"src/comm/mpi/", "tests/", "bench/"}},
      {"system(", "call the library function", {"tests/", "bench/"}},
  };
  return tokens;
}

const std::vector<CatchSite>& catch_sites() {
  static const std::vector<CatchSite> sites = {
      {"src/base/file.cc", "removes the unfinished file, then rethrows"},
      {"src/base/toml.cc", "turns the TOML library's exceptions into Error"},
      {"src/checkpoint/background_task.cc", "entry point of the writing thread"},
      {"src/checkpoint/checkpoint_folder.cc", "a checkpoint that is damaged is what it looks for"},
      {"src/checkpoint/hf_weights.cc", "turns the JSON library's exceptions into Error"},
      {"src/checkpoint/manifest.cc", "rethrows with the code that fits"},
      {"src/checkpoint/sharded_checkpoint.cc", "falls back to the checkpoint before"},
      {"src/comm/fault.cc", "a fault report that cannot be written must not hide the fault"},
      {"src/comm/local/local_world.cc", "entry point of a rank's thread"},
      {"src/comm/mpi/mpi_transfers.cc", "a destructor that waits"},
      {"src/comm/mpi/mpi_world.cc", "entry point of a rank's process"},
      {"src/comm/progress_thread.cc", "entry point of the progress thread"},
      {"src/serve/engine.cc",
       "entry point of the engine's thread; open requests are told before it ends"},
      {"src/doctor/collect.cc", "a log that cannot be read is listed, the others are collected"},
      {"src/doctor/log_files.cc", "a log that cannot be read is told of, the others are scanned"},
      {"src/plan/score_memory.cc", "a row that cannot be read is listed, the others are scored"},
      {"src/device/cpu/gemm_onednn.cc", "turns the library's exception into 'not supported'"},
      {"src/device/guard/guard_stream.cc", "entry point of a stream's thread"},
      {"src/model/decoder_weights.cc", "passes the error of a reading thread to its caller"},
      {"src/plan/readers/kubernetes.cc", "turns the YAML library's exceptions into Error"},
      {"src/plan/readers/accelerate.cc", "turns the YAML library's exceptions into Error"},
      {"src/plan/readers/shell_nested.cc", "notes text of a nested shell that is no script"},
      {"src/plan/readers/trainer_flags.cc", "turns the YAML library's exceptions into Error"},
      {"src/plan/readers/mindformers.cc", "turns the YAML library's exceptions into Error"},
      {"src/plan/readers/mindformers_base.cc", "turns the YAML library's exceptions into Error"},
      {"src/profile/read_profile.cc", "one file that cannot be read is a note, the others count"},
      {"src/serve/api_server.cc", "the request loop: what a client sends must not leave it"},
      {"src/serve/replica_link.cc",
       "entry points of the links' threads; open requests are told before they end"},
      {"src/text/chat_template.cc", "arguments that are no JSON are printed as they are"},
      {"src/text/jinja/filters.cc", "adds the line to what the JSON writer cannot write"},
      {"src/text/hf_tokenizer.cc", "turns the JSON library's exceptions into Error"},
      {"src/train/trainer.cc", "adds the step to the error, then rethrows"},
  };
  return sites;
}

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = {"cpu", "guard", "ascend", "local", "mpi", "hccl"};
  return names;
}

const std::vector<std::string>& backend_places() {
  static const std::vector<std::string> places = {
      "src/device/registry.cc", "src/device/cpu/", "src/device/guard/", "src/device/ascend/",
      "src/comm/rank_runner.cc", "src/comm/local/", "src/comm/mpi/", "src/comm/hccl/", "src/cli/",
      // Words of other programs.
      "src/plan/export/", "src/plan/readers/", "src/plan/check_changes.cc"};
  return places;
}

const std::vector<SizeWaiver>& size_waivers() {
  static const std::vector<SizeWaiver> waivers = {};
  return waivers;
}

}  // namespace plait::tidy
