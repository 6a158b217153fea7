// This machine.
#pragma once

#include <string>

namespace plait {

// Its name, as the kernel has it.
std::string host_name();

}  // namespace plait
