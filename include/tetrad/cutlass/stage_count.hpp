// For users of CUTLASS: stage counts from the size that a kernel really allocates, and a filter that asks the device.
//
// StageCountAutoCarveout divides a constant budget by the bytes of a stage; alignment and part of the tensor maps are
// not in the sum, so a kernel can come out larger than a block may allocate, which shows only when it is initialised.
// StageCountWithin starts from CUTLASS's own count and takes stages away while sizeof(SharedStorage) is above the
// limit: a kernel that fits keeps its count.
//
//   template <class Stages> using MyKernel = cutlass::gemm::kernel::GemmUniversal<..., typename CollectiveBuilder<...,
//                                                Stages, ...>::CollectiveOp, MyEpilogue, void>;
//   using Auto = cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(MyEpilogue::SharedStorage))>;
//   using Kernel = tetrad::cutlass_stages::StageCountWithin<MyKernel, Auto, 101376>::Kernel;
//
// Needs CUTLASS 3 or 4 and the CUDA runtime's headers; C++17.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cutlass/gemm/collective/collective_builder_decl.hpp"

namespace tetrad::cutlass_stages {

// Bytes of shared memory that a block of this kernel allocates.
template <class Kernel>
inline constexpr std::size_t kAllocated = sizeof(typename Kernel::SharedStorage);

// Stages of a kernel's mainloop.
template <class Kernel>
inline constexpr int kStages = Kernel::CollectiveMainloop::DispatchPolicy::Stages;

namespace detail {

template <template <class> class KernelOf, int Stages, std::size_t LimitBytes, int Least>
constexpr int largest_within() {
  static_assert(Stages >= Least, "no stage count of this tile fits the limit");
  using Kernel = KernelOf<::cutlass::gemm::collective::StageCount<Stages>>;
  if constexpr (kAllocated<Kernel> <= LimitBytes) {
    return Stages;
  } else {
    return largest_within<KernelOf, Stages - 1, LimitBytes, Least>();
  }
}

}  // namespace detail

// The stage count of KernelOf<Start>, lowered until the kernel allocates at most LimitBytes (101376 on 12.x). Start: a
// stage-count type of CUTLASS, usually StageCountAutoCarveout. A tile that does not fit with Least stages (mainloops of
// CUTLASS need two) does not compile.
template <template <class> class KernelOf, class Start, std::size_t LimitBytes, int Least = 2>
struct StageCountWithin {
  static constexpr int kStart = kStages<KernelOf<Start>>;
  static constexpr int stages = detail::largest_within<KernelOf, kStart, LimitBytes, Least>();
  using type = ::cutlass::gemm::collective::StageCount<stages>;
  using Kernel = KernelOf<type>;
};

// What a device says about a kernel.
struct DeviceFit {
  cudaError_t error = cudaSuccess;  // of the question to the device; then nothing fits
  std::size_t need = 0;             // bytes that a block allocates
  std::size_t have = 0;             // bytes that a block may opt into
  bool fits() const { return error == cudaSuccess && need <= have; }
};

// Asks a device for its opt-in limit (cudaDevAttrMaxSharedMemoryPerBlockOptin) and compares.
template <class Kernel>
DeviceFit fit_on(int device) {
  DeviceFit fit;
  fit.need = kAllocated<Kernel>;
  int limit = 0;
  fit.error = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (fit.error == cudaSuccess && limit > 0) fit.have = static_cast<std::size_t>(limit);
  return fit;
}

// Index of the first kernel of the list that fits the device; -1: none does, or the device gave no answer.
template <class... Kernels>
int first_that_fits(int device) {
  int index = -1;
  int at = 0;
  ((index < 0 && fit_on<Kernels>(device).fits() ? index = at++ : at++), ...);
  return index;
}

}  // namespace tetrad::cutlass_stages
