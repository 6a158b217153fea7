// UTF-8.
#pragma once

#include <string_view>

namespace plait {

// Offset of the first byte that does not belong to well-formed UTF-8 (RFC 3629: no overlong forms,
// no surrogates, nothing above U+10FFFF), or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace plait
