// Speed of the layout search on the questions of Korthikanti et al. 2022 and a 13B on 64 NPUs:
// layouts enumerated a second, and what became of them.
//
//   plan_search [--threads 2]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "plan/search.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

struct Question {
  const char* model;
  const char* cluster;
  int devices;
  int64_t global_batch;
  int64_t seq;
};

void run(const Question& question, int threads) {
  SearchRequest request;
  request.job.model_name = question.model;
  request.job.model = find_model(question.model);
  request.job.batch = {
      .global_batch_size = question.global_batch, .micro_batch_size = 1, .seq_len = question.seq};
  request.job.vocab_multiple = 1;
  request.cluster = load_cluster(question.cluster);
  request.devices = question.devices;
  request.threads = threads;
  const SearchResult result = search_layouts(request);
  const SearchCounts& c = result.counts;
  std::puts(fmt::format("{:14} {:6} devices  {:7} enumerated ({:7} invalid, {:6} over memory, {:6} "
                        "pruned by bound, {:4} simulated)  {:6.3f} s, of it {:6.3f} s enumerating: "
                        "{:9.0f} layouts/s",
                        question.model, question.devices, c.enumerated, c.invalid, c.pruned_memory,
                        c.pruned_bound, c.simulated, c.seconds, c.enumerate_seconds,
                        static_cast<double>(c.enumerated) / c.enumerate_seconds)
                .c_str());
}

int main_of(int argc, char** argv) {
  int threads = 0;
  if (argc == 3 && std::string(argv[1]) == "--threads") {
    threads = std::atoi(argv[2]);
  }
  for (const Question& question :
       {Question{"Megatron-22B", "a100", 8, 4, 2048}, Question{"GPT-3-175B", "a100", 64, 64, 2048},
        Question{"MT-NLG-530B", "a100", 280, 280, 2048},
        Question{"Megatron-1T", "a100", 512, 512, 2048},
        Question{"Llama-2-13B", "910b", 64, 512, 4096},
        Question{"DeepSeek-V3", "910b", 1024, 4096, 4096},
        Question{"Megatron-1T", "a100", 10000, 10000, 2048}}) {
    run(question, threads);
  }
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  return plait::main_of(argc, argv);
}
