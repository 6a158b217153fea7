#include "text/text_rig.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace plait {

const Tokenizer& qwen3_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load_hf(PLAIT_QWEN3_DIR);
  return tokenizer;
}

std::string read_text_data(const std::string& name) {
  const char* folder = std::getenv("PLAIT_TEST_DATA");
  return read_file(std::string(folder == nullptr ? "tests/data" : folder) + "/text/" + name);
}

TokenizerSpec make_spec(const SmallTokenizer& small) {
  TokenizerSpec spec;
  spec.origin = "small";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.emplace_back(1, static_cast<char>(byte));
  }
  spec.tokens.insert(spec.tokens.end(), small.tokens.begin(), small.tokens.end());
  const auto id_of = [&](const std::string& token) {
    const auto found = std::ranges::find(spec.tokens, token);
    CHECK(found != spec.tokens.end());
    return static_cast<int32_t>(found - spec.tokens.begin());
  };
  for (const auto& [left, right] : small.merges) {
    spec.merges.emplace_back(id_of(left), id_of(right));
  }
  spec.added = small.added;
  int32_t next = 1000;
  for (AddedToken& token : spec.added) {
    token.id = token.id < 0 ? next++ : token.id;
  }
  spec.splits.push_back({true, kQwen2SplitRegex});
  return spec;
}

}  // namespace plait
