#include "device_arg.hpp"

namespace tetrad::cli {

Result<DeviceProfile> device_named(const Context& context, const std::string& name) {
  if (context.data_dir.empty()) return find_device(name);
  Result<std::vector<DeviceProfile>> devices = load_devices(context.data_dir);
  if (!devices) return devices.error();
  return find_device(name, *devices);
}

}  // namespace tetrad::cli
