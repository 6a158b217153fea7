// Stop strings in streamed text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// Holds back text that may begin a stop string, so that no character of one is ever sent. The
// joined results do not depend on how the text is cut. Cost: O(characters x stops).
class StopMatcher {
 public:
  // `include_stop`: the stop string itself is part of the result. Errors: kInvalidArgument for an
  // empty stop string.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  // The text that can be sent now. After a stop was found it is always empty.
  std::string push(std::string_view text);
  // The rest, when the sequence ends for another reason.
  std::string finish();

  // The stop string that was found: the one that completes first; of several at one place the
  // longest.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // Knuth-Morris-Pratt
    size_t state = 0;              // characters of `text` that the input ends with
  };
  std::vector<Pattern> patterns_;
  bool include_stop_ = false;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace plait
