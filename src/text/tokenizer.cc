#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/piece_cache.h"
#include "text/splitter.h"
#include "text/unicode.h"

namespace plait {
namespace {

constexpr size_t kTextBytesMax = size_t{1} << 31;

std::vector<AddedToken> select_added(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> selected;
  for (const AddedToken& token : spec.added) {
    if (token.normalized == normalized) {
      selected.push_back(token);
      if (normalized && spec.nfc) {
        selected.back().content = to_nfc(token.content);
      }
    }
  }
  return selected;
}

// Ranges of `user` inside [begin, end), counted from begin.
std::vector<ByteRange> ranges_within(const std::vector<ByteRange>& user, const ByteRange& part) {
  std::vector<ByteRange> inside;
  for (const ByteRange& range : user) {
    const size_t begin = std::max(range.begin, part.begin);
    const size_t end = std::min(range.end, part.end);
    if (begin < end) {
      inside.push_back({begin - part.begin, end - part.begin});
    }
  }
  return inside;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec given)
      : spec(std::move(given)),
        bpe(spec),
        raw_added(select_added(spec, false)),
        normalized_added(select_added(spec, true)) {
    for (const SplitStep& step : spec.splits) {
      splitters.push_back(make_splitter(step, spec.origin));
    }
    all_tokens = spec.tokens;
    special.resize(all_tokens.size());
    for (const AddedToken& token : spec.added) {
      add_token(token);
    }
    while (!all_tokens.empty() && all_tokens.back().empty()) {
      all_tokens.pop_back();
    }
  }

  void add_token(const AddedToken& token) {
    static constexpr int32_t kIdMax = 1 << 21;
    if (token.id < 0 || token.id > kIdMax) {
      throw_error(ErrorCode::kCorruptData, "{}: added token '{}' has the id {}", spec.origin,
                  token.content, token.id);
    }
    const auto id = static_cast<size_t>(token.id);
    if (id >= all_tokens.size()) {
      all_tokens.resize(id + 1);
      special.resize(id + 1);
    }
    // What HF's byte-level decoder makes of the content.
    const std::string bytes = decode_byte_alphabet(token.content).value_or(token.content);
    if (!all_tokens[id].empty() && all_tokens[id] != bytes && all_tokens[id] != token.content) {
      throw_error(ErrorCode::kCorruptData, "{}: the tokens '{}' and '{}' both have the id {}",
                  spec.origin, all_tokens[id], token.content, id);
    }
    all_tokens[id] = bytes;
    special[id] = token.special;
  }

  // Text without added tokens.
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    std::string with_space;
    if (spec.add_prefix_space && !text.starts_with(' ')) {
      with_space = ' ' + std::string(text);
      text = with_space;
    }
    std::vector<size_t> ends{text.size()};
    for (const auto& splitter : splitters) {
      std::vector<size_t> finer;
      finer.reserve(text.size() / 4 + 1);
      size_t begin = 0;
      for (const size_t end : ends) {
        splitter->split(text.substr(begin, end - begin), begin, finer);
        begin = end;
      }
      ends = std::move(finer);
    }
    PieceCache cache(text);
    size_t begin = 0;
    for (const size_t end : ends) {
      cache.append(begin, end, ids, [this](std::string_view piece, std::vector<int32_t>& out) {
        bpe.encode(piece, out);
      });
      begin = end;
    }
  }

  // Cuts `text` at the added tokens and hands what lies between to `plain`.
  template <typename Plain>
  static void cut(const AddedTokenMatcher& matcher, std::string_view text,
                  const AddedSearch& search, std::vector<int32_t>& ids, const Plain& plain) {
    size_t begin = 0;
    if (!matcher.empty()) {
      for (const AddedMatch& match : matcher.find(text, search)) {
        if (match.begin > begin) {
          plain(ByteRange{begin, match.begin});
        }
        ids.push_back(match.id);
        begin = match.end;
      }
    }
    if (begin < text.size()) {
      plain(ByteRange{begin, text.size()});
    }
  }

  void encode_normalized(std::string_view text, const AddedSearch& search,
                         std::vector<int32_t>& ids) const {
    cut(normalized_added, text, search, ids, [&](const ByteRange& part) {
      encode_plain(text.substr(part.begin, part.end - part.begin), ids);
    });
  }

  void encode(std::string_view text, const AddedSearch& search, std::vector<int32_t>& ids) const {
    check_text(text);
    cut(raw_added, text, search, ids, [&](const ByteRange& part) {
      const std::string_view piece = text.substr(part.begin, part.end - part.begin);
      AddedSearch inner = search;
      std::vector<ByteRange> user;
      if (search.user != nullptr && !normalized_added.empty()) {
        user = ranges_within(*search.user, part);
        inner.user = &user;
      }
      if (!spec.nfc || find_unstable_in_nfc(piece) == std::string_view::npos) {
        encode_normalized(piece, inner, ids);
        return;
      }
      const std::string composed = to_nfc(piece);
      // Normalising loses track of single bytes: all of the part counts as the user's then.
      if (!user.empty()) {
        user.assign(1, {0, composed.size()});
      }
      encode_normalized(composed, inner, ids);
    });
  }

  void check_text(std::string_view text) const {
    if (text.size() >= kTextBytesMax) {
      throw_error(ErrorCode::kInvalidArgument, "the text has {} bytes; at most {} are allowed",
                  text.size(), kTextBytesMax - 1);
    }
    const size_t invalid = find_invalid_utf8(text);
    if (invalid != std::string_view::npos) {
      throw_error(ErrorCode::kInvalidArgument, "the text is not UTF-8 at byte {}", invalid);
    }
  }

  TokenizerSpec spec;
  Bpe bpe;
  AddedTokenMatcher raw_added;
  AddedTokenMatcher normalized_added;
  std::vector<std::unique_ptr<Splitter>> splitters;
  std::vector<std::string> all_tokens;  // the model's and the added ones
  std::vector<bool> special;
};

Tokenizer::Tokenizer(TokenizerSpec spec) : impl_(std::make_unique<const Impl>(std::move(spec))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load_hf(const std::string& directory) {
  return Tokenizer(read_hf_tokenizer(directory));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 2);
  if (options.add_special_tokens) {
    ids = impl_->spec.prefix_ids;
  }
  impl_->encode(text, {options.recognise_special, nullptr}, ids);
  if (options.add_special_tokens) {
    ids.insert(ids.end(), impl_->spec.suffix_ids.begin(), impl_->spec.suffix_ids.end());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::encode(std::span<const TextSegment> segments) const {
  std::string text;
  std::vector<ByteRange> user;
  for (const TextSegment& segment : segments) {
    if (segment.from_user && !segment.text.empty()) {
      user.push_back({text.size(), text.size() + segment.text.size()});
    }
    text += segment.text;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 2);
  impl_->encode(text, {true, &user}, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  Detokenizer detokenizer(*this, options);
  std::string text;
  for (const int32_t id : ids) {
    text += detokenizer.push(id);
  }
  return text + detokenizer.finish();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return has_token(id) ? std::string_view(impl_->all_tokens[static_cast<size_t>(id)])
                       : std::string_view();
}

std::string Tokenizer::token_text(int32_t id) const {
  Utf8Stream stream;
  std::string text = stream.push(token_bytes(id));
  return text + stream.finish();
}

bool Tokenizer::has_token(int32_t id) const {
  return id >= 0 && id < vocab_size() && !impl_->all_tokens[static_cast<size_t>(id)].empty();
}

bool Tokenizer::is_special(int32_t id) const {
  return has_token(id) && impl_->special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::find_token(std::string_view bytes) const {
  for (const AddedToken& token : impl_->spec.added) {
    if (token.content == bytes) {
      return token.id;
    }
  }
  const int32_t id = impl_->bpe.index().find(bytes);
  return id >= 0 ? std::optional<int32_t>(id) : std::nullopt;
}

int64_t Tokenizer::vocab_size() const {
  return std::ssize(impl_->all_tokens);
}
std::optional<int32_t> Tokenizer::bos_id() const {
  return impl_->spec.bos_id;
}
std::optional<int32_t> Tokenizer::eos_id() const {
  return impl_->spec.eos_id;
}
std::optional<int32_t> Tokenizer::pad_id() const {
  return impl_->spec.pad_id;
}
const std::string& Tokenizer::chat_template() const {
  return impl_->spec.chat_template;
}
const std::string& Tokenizer::origin() const {
  return impl_->spec.origin;
}

}  // namespace plait
