// The full JSON type, for .cc files only.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json.h"
