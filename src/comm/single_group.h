// A group of one rank: nothing to wait for, nothing to move but a copy within the device.
#pragma once

#include <memory>
#include <string>

#include "comm/process_group.h"

namespace plait {

std::unique_ptr<ProcessGroup> make_single_group(const std::string& name, Device& device);

}  // namespace plait
