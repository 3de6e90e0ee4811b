// How verbs read a --device argument.
#pragma once

#include <string>

#include "cli.hpp"
#include "tetrad/device.hpp"

namespace tetrad::cli {

// The named device, from --data DIR's files over the built-in ones. Errors as find_device and load_devices.
Result<DeviceProfile> device_named(const Context& context, const std::string& name);

}  // namespace tetrad::cli
