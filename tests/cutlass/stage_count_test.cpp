// The stage-count policy on real kernels. Compiled as host code by stage_count.py; the device's answer is a double.
#include "tetrad/cutlass/stage_count.hpp"

#include <cstdio>

#include "sm120_kernels.hpp"

namespace {

int answer = 101376;
cudaError_t answer_error = cudaSuccess;
int failures = 0;

void check(bool good, const char* what, long long have) {
  if (!good) ++failures;
  std::printf("%s %s: %lld\n", good ? "ok  " : "FAIL", what, have);
}

using namespace tetrad::cutlass_stages;
using bf16 = cutlass::bfloat16_t;
constexpr std::size_t kLimit = 101376;

template <class Stages>
using Overflowing = typename tetrad_cutlass::Finalize<128, 256, 128, bf16, false, Stages>::Kernel;
template <class Stages>
using OverflowingTall = typename tetrad_cutlass::Finalize<256, 128, 128, bf16, false, Stages>::Kernel;
template <class Stages>
using Fitting = typename tetrad_cutlass::Linear<128, 128, 128, void, bf16, true, false, Stages>::Kernel;
template <class Stages>
using Exact = typename tetrad_cutlass::Linear<128, 64, 128, bf16, bf16, true, false, Stages>::Kernel;

template <class Kernel>
using AutoOf = cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
    sizeof(typename Kernel::CollectiveEpilogue::SharedStorage))>;

template <template <class> class KernelOf>
void lowered(const char* name, int from, int to) {
  using Auto = KernelOf<void>;
  using Within = StageCountWithin<KernelOf, AutoOf<Auto>, kLimit>;
  std::printf("%s\n", name);
  check(kStages<Auto> == from, "stages of CUTLASS", kStages<Auto>);
  check((kAllocated<Auto> > kLimit) == (from != to), "bytes of CUTLASS", kAllocated<Auto>);
  check(Within::stages == to, "stages within", Within::stages);
  check(kStages<typename Within::Kernel> == to, "stages of the kernel", kStages<typename Within::Kernel>);
  check(kAllocated<typename Within::Kernel> <= kLimit, "bytes within", kAllocated<typename Within::Kernel>);
}

}  // namespace

extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? answer : -1;
  return answer_error;
}

int main() {
  lowered<Overflowing>("128x256x128 finalize", 3, 2);
  lowered<OverflowingTall>("256x128x128 finalize", 3, 2);
  lowered<Fitting>("128x128x128 grouped", 4, 4);
  lowered<Exact>("128x64x128 grouped, c", 6, 6);

  using Auto = Overflowing<void>;
  using Within = StageCountWithin<Overflowing, AutoOf<Auto>, kLimit>::Kernel;
  check(!fit_on<Auto>(0).fits(), "refused by the device, bytes", fit_on<Auto>(0).need);
  check(fit_on<Within>(0).fits(), "taken by the device, bytes", fit_on<Within>(0).need);
  check((first_that_fits<Auto, Within>(0) == 1), "first that fits", first_that_fits<Auto, Within>(0));
  answer = 232448;
  check((first_that_fits<Auto, Within>(0) == 0), "first that fits a larger device", first_that_fits<Auto, Within>(0));
  answer_error = cudaErrorInvalidDevice;
  check((first_that_fits<Auto, Within>(9) == -1), "no device", first_that_fits<Auto, Within>(9));
  return failures == 0 ? 0 : 1;
}
