// The speed of large matrix products on a device: what MFU is measured against.
#pragma once

#include "device/device.h"

namespace plait {

// FLOP/s of the best of several products of 1024^3, through the device's own kernel. Takes about a
// quarter of a second. Provenance: measured.
double measure_gemm_peak(Device& device, DType dtype);

}  // namespace plait
