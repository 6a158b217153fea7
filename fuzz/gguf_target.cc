#include <vector>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_parts.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "text/tokenizer.h"

namespace plait {

void fuzz_gguf(std::span<const std::byte> input) {
  accept_or_refuse([&] {
    const GgufView gguf(input, "input");
    for (const GgufTensor& tensor : gguf.tensors()) {
      std::vector<float> row(static_cast<size_t>(tensor.cols()));
      copy_row_as_f32(tensor, {tensor.count() / tensor.cols() - 1, 0}, row);
    }
    accept_or_refuse([&] { gguf_config(gguf); });
    accept_or_refuse([&] {
      const Tokenizer tokenizer(gguf_tokenizer(gguf));
      const std::vector<int32_t> ids = tokenizer.encode("The 12 caf\xc3\xa9s' <|im_end|>\n");
      CHECK(tokenizer.decode(ids).size() <= 64);
    });
  });
}

}  // namespace plait
