// Part of the streaming parsers.
#pragma once

#include <algorithm>
#include <string_view>

namespace plait {

// Length of the longest end of `text` that begins `tag`: what must wait for more text.
inline size_t held_tag_size(std::string_view text, std::string_view tag) {
  size_t size = std::min(text.size(), tag.size() - 1);
  while (size > 0 && text.substr(text.size() - size) != tag.substr(0, size)) {
    --size;
  }
  return size;
}

}  // namespace plait
