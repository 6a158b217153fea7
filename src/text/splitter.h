// The pre-tokenizer: cuts text into the pieces that BPE never joins.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace plait {

// One step. Immutable and thread-safe.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // Appends the end of each piece of `text`, in order; the last is text.size() (none for an empty
  // text). Offsets are raised by `base`. Requires: well-formed UTF-8.
  virtual void split(std::string_view text, size_t base, std::vector<size_t>& ends) const = 0;
};

// Linear in the text for the regexes of tokenizer_spec.h and for digits. Errors: kCorruptData for a
// regex that PCRE2 cannot compile.
std::unique_ptr<Splitter> make_splitter(const SplitStep& step, const std::string& origin);

// By PCRE2, for any regex; the test's oracle too. Its split throws kInvalidArgument for a text that
// needs more than a fixed number of matching steps.
std::unique_ptr<Splitter> make_regex_splitter(const std::string& regex, const std::string& origin);

}  // namespace plait
