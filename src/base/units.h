// Binary multiples of a byte.
#pragma once

namespace plait {

constexpr double kMiB = 0x1p20;
constexpr double kGiB = 0x1p30;

}  // namespace plait
