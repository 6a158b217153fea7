// Conditions of rules that take arithmetic on captured words.
#pragma once

#include <string>

#include "doctor/pattern.h"

namespace plait {

bool is_check(const std::string& name);

// Whether the condition holds for the words that a rule captured; words that are absent or no
// numbers make it false. CHECK: is_check(name).
bool holds(const std::string& name, const Captures& captures);

// "4.24 GiB", "88.00 MiB", "512" (bytes) as bytes; < 0 if it is none.
double size_in_bytes(const std::string& number, const std::string& unit);

}  // namespace plait
