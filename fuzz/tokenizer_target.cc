#include <string>

#include "base/utf8.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "text/tokenizer.h"

namespace plait {

void fuzz_tokenizer(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] {
    const Tokenizer tokenizer(parse_hf_tokenizer(text, "", "input"));
    const std::vector<int32_t> ids = tokenizer.encode("The 12 caf\xc3\xa9s' <|im_end|>\n");
    CHECK(find_invalid_utf8(tokenizer.decode(ids)) == std::string_view::npos);
  });
}

}  // namespace plait
