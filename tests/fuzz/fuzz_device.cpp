// Device JSON: a text that reads must write back to a text that reads as an equal profile; every refusal is an input
// error with an id, a place and a need.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tetrad/device.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const tetrad::Result<tetrad::DeviceProfile> device = tetrad::device_from_json(text, "fuzz");
  if (!device) {
    const tetrad::Error& error = device.error();
    if (error.kind != tetrad::ErrorKind::input || error.id.empty() || error.where.empty() || error.need.empty())
      std::abort();
    return 0;
  }
  const tetrad::Result<tetrad::DeviceProfile> again = tetrad::device_from_json(tetrad::device_to_json(*device), "fuzz");
  if (!again || !(*again == *device)) std::abort();
  return 0;
}
