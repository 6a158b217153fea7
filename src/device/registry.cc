// The one place outside the backends' folders that names them.
#include <array>

#include <fmt/ranges.h>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "device/guard/guard_device.h"

namespace plait {
namespace {

struct Backend {
  const char* name;
  std::unique_ptr<Device> (*make)(const DeviceOptions& options);
};

template <typename T>
std::unique_ptr<Device> make(const DeviceOptions& options) {
  return std::make_unique<T>(options);
}

constexpr std::array kBackends = {
    Backend{"cpu", make<cpu::CpuDevice>},
    Backend{"guard", make<guard::GuardDevice>},
};

}  // namespace

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) {
    names.emplace_back(backend.name);
  }
  return names;
}

std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options) {
  for (const Backend& backend : kBackends) {
    if (name == backend.name) {
      return backend.make(options);
    }
  }
  throw_error(ErrorCode::kInvalidArgument, "unknown device '{}'; this build has: {}", name,
              fmt::join(device_names(), ", "));
}

}  // namespace plait
