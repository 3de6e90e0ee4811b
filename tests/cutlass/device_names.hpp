// What nvcc declares by itself in device code, declared only: enough for a host compiler to read CUTLASS's templates
// and tell the sizes of their types. Nothing here is ever called.
#pragma once

#include <cuda_runtime.h>

extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const dim3 blockDim;
extern const dim3 gridDim;
void __syncthreads();
void __syncwarp(unsigned mask = ~0U);
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32);
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane, int width = 32);
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32);
unsigned __ballot_sync(unsigned mask, int predicate);

namespace cutlass::arch {
int SmId();
}
