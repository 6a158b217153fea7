#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace plait {
namespace {

bool is_white(uint32_t c) {
  const CharClass kind = char_class(c);
  return kind == CharClass::kSpace || kind == CharClass::kNewline;
}

CodePoint code_point_before(std::string_view text, size_t position) {
  size_t begin = position - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80) {
    --begin;
  }
  return code_point_at(text, begin);
}

size_t spaces_begin(std::string_view text, size_t position, size_t limit) {
  while (position > limit) {
    const CodePoint c = code_point_before(text, position);
    if (!is_white(c.value)) {
      break;
    }
    position -= c.size;
  }
  return position;
}

size_t spaces_end(std::string_view text, size_t position) {
  while (position < text.size()) {
    const CodePoint c = code_point_at(text, position);
    if (!is_white(c.value)) {
      break;
    }
    position += c.size;
  }
  return position;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word_character(code_point_before(text, begin).value)) &&
         (end == text.size() || !is_word_character(code_point_at(text, end).value));
}

bool touches_user(size_t begin, size_t end, const AddedSearch& search) {
  if (search.user == nullptr) {
    return false;
  }
  const auto range = std::ranges::upper_bound(*search.user, begin, {}, &ByteRange::end);
  return range != search.user->end() && range->begin < end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) : nodes_(1) {
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) {
      continue;
    }
    int32_t node = 0;
    for (const char c : token.content) {
      const auto byte = static_cast<uint8_t>(c);
      int32_t next = child(node, byte);
      if (next < 0) {
        next = static_cast<int32_t>(nodes_.size());
        std::vector<Edge>& edges = nodes_[static_cast<size_t>(node)].edges;
        edges.insert(std::ranges::upper_bound(edges, byte, {}, &Edge::byte), Edge{byte, next});
        nodes_.emplace_back();
      }
      node = next;
    }
    nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(tokens_.size());
    begins_[static_cast<uint8_t>(token.content.front())] = true;
    tokens_.push_back(token);
  }
}

int32_t AddedTokenMatcher::child(int32_t node, uint8_t byte) const {
  const std::vector<Edge>& edges = nodes_[static_cast<size_t>(node)].edges;
  const auto found = std::ranges::lower_bound(edges, byte, {}, &Edge::byte);
  return found != edges.end() && found->byte == byte ? found->node : -1;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t position,
                                                const AddedSearch& search) const {
  const AddedToken* best = nullptr;
  int32_t node = 0;
  for (size_t i = position; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node < 0) {
      break;
    }
    const int32_t index = nodes_[static_cast<size_t>(node)].token;
    if (index < 0) {
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    const bool allowed =
        !token.special || (search.recognise_special && !touches_user(position, i + 1, search));
    if (allowed && (!token.single_word || stands_alone(text, position, i + 1))) {
      best = &token;
    }
  }
  return best;
}

std::vector<AddedMatch> AddedTokenMatcher::find(std::string_view text,
                                                const AddedSearch& search) const {
  std::vector<AddedMatch> matches;
  size_t done = 0;
  size_t position = 0;
  while (position < text.size()) {
    if (!begins_[static_cast<uint8_t>(text[position])]) {
      ++position;
      continue;
    }
    const AddedToken* token = longest_at(text, position, search);
    if (token == nullptr) {
      ++position;
      continue;
    }
    AddedMatch match{position, position + token->content.size(), token->id};
    if (token->lstrip) {
      match.begin = spaces_begin(text, match.begin, done);
    }
    if (token->rstrip) {
      match.end = spaces_end(text, match.end);
    }
    done = position = match.end;
    matches.push_back(match);
  }
  return matches;
}

}  // namespace plait
