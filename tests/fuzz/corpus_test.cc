// Runs every fuzz target over its seed corpus, over all its prefixes and over a few hundred
// mutations of each seed, the same ones every time. libFuzzer goes further: scripts/fuzz-smoke.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "fuzz/targets.h"

namespace plait {
namespace {

constexpr uint64_t kMutations = 400;
constexpr size_t kPrefixesMax = 1000;

std::vector<std::string> read_corpus(const std::string& name) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(PLAIT_FUZZ_CORPUS) + "/" + name)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const std::string& path : paths) {
    seeds.push_back(read_file(path));
  }
  return seeds;
}

// A buffer of exactly the input's size, so that a sanitizer sees reads behind its end.
void run(const FuzzTarget& target, const std::string& input) {
  const std::vector<char> exact(input.begin(), input.end());
  target.run(std::as_bytes(std::span(exact)));
}

// One to four edits, chosen by (number, step).
std::string mutate(std::string input, uint64_t number) {
  uint64_t step = 0;
  const auto pick = [&](uint64_t bound) {
    return random_bits(number, 1, step++) % std::max<uint64_t>(bound, 1);
  };
  const uint64_t edits = 1 + pick(4);
  for (uint64_t edit = 0; edit < edits && !input.empty(); ++edit) {
    const uint64_t at = pick(input.size());
    const uint64_t length = 1 + pick(std::min<uint64_t>(16, input.size() - at));
    switch (pick(5)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << pick(8)));
        break;
      case 1:
        input[at] = static_cast<char>(pick(256));
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(pick(input.size()), input.substr(at, length));
        break;
      default:
        input.replace(at, 1, std::to_string(random_bits(number, 2, step++)));
        break;
    }
  }
  return input;
}

class FuzzCorpus : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzCorpus, SeedsPrefixesAndMutationsDoNoHarm) {
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = read_corpus(target.name);
  ASSERT_GE(seeds.size(), 3U) << target.name;
  uint64_t number = 0;
  for (const std::string& seed : seeds) {
    run(target, seed);
    for (size_t size = 0; size < std::min(seed.size(), kPrefixesMax); ++size) {
      run(target, seed.substr(0, size));
    }
    for (uint64_t i = 0; i < kMutations; ++i) {
      run(target, mutate(seed, number++));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus, ::testing::ValuesIn(kFuzzTargets),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace plait
