// Small operations on text.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// ASCII letters in lower case; other bytes as they are.
std::string lower(std::string text);

// Without the bytes of `blanks` at both ends.
std::string trimmed(std::string_view text, std::string_view blanks = " \t");

}  // namespace plait
