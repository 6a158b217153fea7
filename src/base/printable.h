// Text from outside on its way to a terminal or page.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// Control characters (C0, DEL, C1) as \xNN, a tab as a blank, marks of writing direction and bytes
// that are no UTF-8 as ?, so that a log cannot steer a terminal.
std::string printable(std::string_view text);

}  // namespace plait
