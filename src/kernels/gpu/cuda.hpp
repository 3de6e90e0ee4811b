// CUDA statuses as errors (internal; only for files compiled with CUDA).
#pragma once

#include <cuda_runtime_api.h>

#include "tetrad/error.hpp"

namespace tetrad::kernels {

// TE1001 where there is no driver or device, else TE1002 with CUDA's name and text of the status.
inline Error cuda_error(cudaError_t status, const char* doing) {
  const bool absent = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                      status == cudaErrorStubLibrary || status == cudaErrorInitializationError;
  Error error{absent ? ErrorKind::unavailable : ErrorKind::internal,
              absent ? "TE1001" : "TE1002",
              doing,
              {},
              {},
              cudaGetErrorName(status),
              {},
              {}};
  if (absent) {
    error.what = "no GPU can be used";
    error.need = "an NVIDIA GPU and its driver";
  } else if (status == cudaErrorMemoryAllocation) {
    error.kind = ErrorKind::unavailable;
  }
  error.causes.emplace_back(cudaGetErrorString(status));
  return error;
}

inline Status cuda_status(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return ok();
  return cuda_error(status, doing);
}

}  // namespace tetrad::kernels
