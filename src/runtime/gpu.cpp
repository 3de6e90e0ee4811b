// Device memory and the device itself, through the CUDA runtime; the runtime is linked in, the driver is looked for
// when the first call needs it.
#include "tetrad/gpu.hpp"

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "kernels/gpu/cuda.hpp"

namespace tetrad::gpu {

using kernels::cuda_error;
using kernels::cuda_status;

Result<int> device_count() {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(status, "counting devices");
  }
  if (count == 0) return cuda_error(cudaErrorNoDevice, "counting devices");
  return count;
}

Result<DeviceInfo> current_device() {
  if (const Result<int> count = device_count(); !count) return count.error();
  int device = 0;
  cudaDeviceProp properties{};
  DeviceInfo info;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaGetDeviceProperties(&properties, device);
  if (status == cudaSuccess) status = cudaDriverGetVersion(&info.driver);
  if (status == cudaSuccess) status = cudaRuntimeGetVersion(&info.runtime);
  if (status != cudaSuccess) return cuda_error(status, "reading the device's properties");
  info.name = properties.name;
  info.cc = {properties.major, properties.minor};
  info.sms = properties.multiProcessorCount;
  info.smem_per_block_optin = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  info.l2_bytes = properties.l2CacheSize;
  return info;
}

Result<Memory> allocate(std::size_t bytes) {
  if (const Result<int> count = device_count(); !count) return count.error();
  void* memory = nullptr;
  if (const cudaError_t status = cudaMalloc(&memory, bytes); status != cudaSuccess) {
    (void)cudaGetLastError();
    Error error = cuda_error(status, "allocating device memory");
    error.need = std::to_string(bytes) + " B";
    std::size_t free = 0;
    std::size_t total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) error.have = std::to_string(free) + " B free";
    return error;
  }
  return Memory{std::shared_ptr<std::uint8_t>(static_cast<std::uint8_t*>(memory), [](void* p) { cudaFree(p); }), bytes};
}

Status copy_to_device(void* to, const void* from, std::size_t bytes) {
  return cuda_status(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying to the device");
}

Status copy_to_host(void* to, const void* from, std::size_t bytes) {
  return cuda_status(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copying from the device");
}

Status fill(void* to, std::uint8_t value, std::size_t bytes) {
  return cuda_status(cudaMemset(to, value, bytes), "filling device memory");
}

Status synchronize() { return cuda_status(cudaDeviceSynchronize(), "waiting for the device"); }

Result<Weight> upload(const PackedWeight& packed) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(packed.rows) * static_cast<std::size_t>(packed.k / 2));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(packed.rows) * static_cast<std::size_t>(packed.k / kBlock));
  if (Status status = unpack(packed, codes.data(), scales.data()); !status) return status.error();
  Result<Memory> data = allocate(packed.bytes);
  if (!data) return data.error();
  if (Status status = copy_to_device(data->data.get(), packed.data.get(), packed.bytes); !status) return status.error();
  Weight weight{packed.layout, packed.rows, packed.k, packed.global, *data, {}};

  constexpr std::uint8_t kNan = 0x7F;
  std::vector<std::uint8_t> nan_rows(static_cast<std::size_t>(packed.rows));
  bool any = false;
  const auto blocks = static_cast<std::size_t>(packed.k / kBlock);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if ((scales[i] & kNan) != kNan) continue;
    nan_rows[i / blocks] = 1;
    any = true;
  }
  if (any) {
    Result<Memory> mask = allocate(nan_rows.size());
    if (!mask) return mask.error();
    weight.nan_rows = *mask;
    if (Status status = copy_to_device(mask->data.get(), nan_rows.data(), nan_rows.size()); !status)
      return status.error();
  }
  return weight;
}

}  // namespace tetrad::gpu
