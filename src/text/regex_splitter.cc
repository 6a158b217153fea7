#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "text/splitter.h"

namespace plait {
namespace {

// A match of a sensible split regex takes a handful of steps a character.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kJitStackBytesMax = 8U << 20;

template <auto free_function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free_function(object);
  }
};

using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

class RegexSplitter final : public Splitter {
 public:
  RegexSplitter(const std::string& regex, const std::string& origin) : origin_(origin) {
    int code = 0;
    PCRE2_SIZE offset = 0;
    regex_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                               PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
    if (!regex_) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: split regex '{}': character {}: {}; PCRE2 cannot compile it", origin, regex,
                  offset, error_text(code));
    }
    // Without a JIT (an architecture that it does not know) the interpreter does the work.
    pcre2_jit_compile(regex_.get(), PCRE2_JIT_COMPLETE);
  }

  void split(std::string_view text, size_t base, std::vector<size_t>& ends) const override {
    const MatchData match(pcre2_match_data_create_from_pattern(regex_.get(), nullptr));
    const MatchContext context(pcre2_match_context_create(nullptr));
    const JitStack stack(pcre2_jit_stack_create(32U << 10, kJitStackBytesMax, nullptr));
    CHECK(match != nullptr && context != nullptr && stack != nullptr);
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t done = 0;  // end of the last piece
    size_t position = 0;
    while (position < text.size()) {
      const int code = pcre2_match(regex_.get(), subject, text.size(), position, PCRE2_NO_UTF_CHECK,
                                   match.get(), context.get());
      if (code == PCRE2_ERROR_NOMATCH) {
        break;
      }
      if (code < 0) {
        throw_error(ErrorCode::kInvalidArgument,
                    "{}: the text cannot be split at byte {}: {}; send a shorter one", origin_,
                    position, error_text(code));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      const size_t begin = range[0];
      const size_t end = range[1];
      if (end <= begin) {  // an empty match cuts nothing off; go on behind the next character
        position = next_character(text, position);
        continue;
      }
      if (begin > done) {
        ends.push_back(base + begin);
      }
      ends.push_back(base + end);
      done = position = end;
    }
    if (done < text.size()) {
      ends.push_back(base + text.size());
    }
  }

 private:
  static size_t next_character(std::string_view text, size_t position) {
    do {
      ++position;
    } while (position < text.size() && (static_cast<uint8_t>(text[position]) & 0xc0) == 0x80);
    return position;
  }

  Code regex_;
  std::string origin_;
};

}  // namespace

std::unique_ptr<Splitter> make_regex_splitter(const std::string& regex, const std::string& origin) {
  return std::make_unique<RegexSplitter>(regex, origin);
}

}  // namespace plait
