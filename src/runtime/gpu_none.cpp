// A build without GPU code: every call says so.
#include "tetrad/gpu.hpp"

namespace tetrad::gpu {
namespace {

Error absent() {
  return Error{ErrorKind::unavailable, "TE1001", "no GPU can be used", "", "a build with GPU code (preset cuda)",
               "a build without",      {},       "cmake --preset cuda"};
}

}  // namespace

Result<int> device_count() { return absent(); }
Result<DeviceInfo> current_device() { return absent(); }
Result<Memory> allocate(std::size_t) { return absent(); }
Status copy_to_device(void*, const void*, std::size_t) { return absent(); }
Status copy_to_host(void*, const void*, std::size_t) { return absent(); }
Status fill(void*, std::uint8_t, std::size_t) { return absent(); }
Status synchronize() { return absent(); }
Result<Weight> upload(const PackedWeight&) { return absent(); }

}  // namespace tetrad::gpu
