// Whole numbers of log lines; one that does not fit is none. Internal to doctor/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "doctor/pattern.h"

namespace plait {

// The number after the first `key` that is followed by digits, with blanks or any of ":=[" between.
std::optional<int64_t> number_after(std::string_view text, std::string_view key);

// A kept word that is a number ("-1" too), with or without the full stop of its sentence.
std::optional<int64_t> number_of(const Captures& words, const char* name);

}  // namespace plait
