// Prints what the compiler says about SM120 kernels: one line per kernel, its `tetrad tiles` flags first, then numbers.
// Compiled by compare_sizes.py with a host compiler; no device code.
#include <cstdio>

#include "cutlass/version.h"
#include "sm120_kernels.hpp"

using namespace tetrad_cutlass;
using bf16 = cutlass::bfloat16_t;
using f16 = cutlass::half_t;

// flags | stages | SharedStorage | carveout | mainloop tensors | epilogue tensors | mainloop pipeline | epilogue
// pipeline
template <class Group>
void row(const char* flags) {
  using Kernel = typename Group::Kernel;
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Epilogue = typename Kernel::CollectiveEpilogue;
  std::printf("%s|%d|%zu|%zu|%zu|%zu|%zu|%zu\n", flags, static_cast<int>(Mainloop::DispatchPolicy::Stages),
              sizeof(typename Kernel::SharedStorage), sizeof(typename Epilogue::SharedStorage),
              sizeof(typename Mainloop::TensorStorage), sizeof(typename Epilogue::TensorStorage),
              sizeof(typename Mainloop::PipelineStorage), sizeof(typename Epilogue::PipelineStorage));
}

template <int M, int N, int K, class Out, bool Grouped, bool Pingpong>
void both_epilogues(const char* out) {
  char flags[160];
  for (const bool with_c : {false, true}) {
    std::snprintf(flags, sizeof flags, "--tile %dx%dx%d --out %s%s%s%s", M, N, K, out, Grouped ? " --grouped" : "",
                  Pingpong ? " --schedule pingpong" : "", with_c ? " --epilogue c" : "");
    if (with_c) {
      row<Linear<M, N, K, Out, Out, Grouped, Pingpong>>(flags);
    } else {
      row<Linear<M, N, K, void, Out, Grouped, Pingpong>>(flags);
    }
  }
}

// Dense and grouped, 32 and 16 bits, D alone and C and D; every second one pingpong.
template <int M, int N, int K>
void tile() {
  both_epilogues<M, N, K, float, false, false>("f32");
  both_epilogues<M, N, K, float, true, true>("f32");
  both_epilogues<M, N, K, bf16, true, false>("bf16");
  both_epilogues<M, N, K, f16, false, true>("f16");
}

int main() {
  std::printf("version|%d.%d.%d\n", CUTLASS_MAJOR, CUTLASS_MINOR, CUTLASS_PATCH);
  tile<128, 128, 128>();
  tile<256, 128, 128>();
  tile<128, 256, 128>();
  tile<128, 128, 256>();
#if CUTLASS_MAJOR > 4 || (CUTLASS_MAJOR == 4 && CUTLASS_MINOR >= 5)
  tile<128, 64, 128>();
  tile<128, 64, 256>();
  tile<128, 32, 128>();
  tile<128, 32, 256>();
#endif
#ifdef TETRAD_FINALIZE_VISITOR
  row<Finalize<128, 256, 128, bf16, false>>("--tile 128x256x128 --grouped --epilogue finalize");
  row<Finalize<128, 256, 128, bf16, true>>("--tile 128x256x128 --grouped --epilogue finalize --swap-ab");
  row<Finalize<128, 64, 256, f16, false>>("--tile 128x64x256 --out f16 --grouped --epilogue finalize");
  row<Finalize<128, 32, 128, bf16, true>>("--tile 128x32x128 --grouped --epilogue finalize --swap-ab");
  row<Finalize<256, 128, 128, f16, true>>("--tile 256x128x128 --out f16 --grouped --epilogue finalize --swap-ab");
#endif
}
