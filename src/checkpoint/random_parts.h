// What the writers of random models share. Internal to checkpoint/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "checkpoint/random_model.h"
#include "spec/parameter_table.h"

namespace plait {

inline constexpr int kByteTokens = 256;
// After the bytes.
inline constexpr const char* kMarks[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
inline constexpr int32_t kEndOfText = 256;
inline constexpr int32_t kEndOfTurn = 258;
inline constexpr const char* kRandomModelTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Draws from a table of normal numbers: four values a hash, where Box-Muller would take minutes for
// a large model.
class FastNormal {
 public:
  FastNormal(uint64_t seed, double stddev) : seed_(seed) {
    for (size_t i = 0; i < kSize; ++i) {
      table_.push_back(static_cast<float>(stddev) * random_normal(seed, hash_name("table"), i));
    }
  }
  template <typename T>
  void fill(uint64_t stream, uint64_t begin, std::span<T> out) const {
    for (size_t i = 0; i < out.size(); i += 4) {
      uint64_t bits = random_bits(seed_, stream, begin + i);
      for (size_t lane = i; lane < std::min(i + 4, out.size()); ++lane) {
        out[lane] = from_float<T>(table_[bits % kSize]);
        bits >>= 16;
      }
    }
  }

 private:
  static constexpr size_t kSize = 1 << 16;
  uint64_t seed_;
  std::vector<float> table_;
};

// The values of rows [row_begin, row_begin + rows) of a parameter, as T.
struct RowRange {
  int64_t row_begin = 0;
  int64_t rows = 0;
};
template <typename T>
std::vector<T> random_rows(const ParamSpec& spec, const RowRange& range, const FastNormal& normal) {
  const int64_t cols = spec.count() / spec.shape[0];
  std::vector<T> values(static_cast<size_t>(range.rows * cols),
                        from_float<T>(spec.init == Init::kOnes ? 1.0F : 0.0F));
  if (spec.init == Init::kNormal) {
    normal.fill(hash_name(spec.name), static_cast<uint64_t>(range.row_begin * cols),
                std::span<T>(values));
  }
  return values;
}

// About a MiB of rows at a time.
inline int64_t rows_at_a_time(const ParamSpec& spec) {
  constexpr int64_t kChunk = 1 << 20;
  return std::clamp<int64_t>(kChunk / (spec.count() / spec.shape[0]), 1, spec.shape[0]);
}

// As write_random_model: checks `config` and gives it the ids of the byte tokenizer.
ModelConfig random_model_config(const ModelConfig& config);

// The characters that stand for the 256 bytes in byte-level vocabularies: printable ones for
// themselves, the others from U+0100 on (GPT-2's encoder).
std::vector<std::string> byte_characters();

}  // namespace plait
