// Small operations on text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plait {

// ASCII letters in lower case; other bytes as they are.
std::string lower(std::string text);

// Without the bytes of `blanks` at both ends.
std::string trimmed(std::string_view text, std::string_view blanks = " \t");

// The parts between separators, empty ones too: one more than there are separators.
std::vector<std::string> split(std::string_view text, char separator);

// "12.3 us", "4.56 ms", "1.234 s".
std::string format_seconds(double seconds);

// `text` if it has at most `most` bytes, else what fits of it, cut between UTF-8 characters, and
// "...": for messages that show what came from outside.
std::string shortened(std::string_view text, size_t most);

}  // namespace plait
