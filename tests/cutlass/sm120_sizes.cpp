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

int main() {
  std::printf("version|%d.%d.%d\n", CUTLASS_MAJOR, CUTLASS_MINOR, CUTLASS_PATCH);
  row<Linear<128, 128, 128, void, float, false, false>>("--tile 128x128x128 --out f32");
  row<Linear<128, 128, 128, float, float, true, false>>("--tile 128x128x128 --out f32 --grouped --epilogue c");
  row<Linear<256, 128, 128, float, float, false, false>>("--tile 256x128x128 --out f32 --epilogue c");
  row<Linear<128, 256, 128, void, float, true, false>>("--tile 128x256x128 --out f32 --grouped");
  row<Linear<128, 128, 256, f16, f16, true, true>>(
      "--tile 128x128x256 --out f16 --grouped --epilogue c --schedule pingpong");
  row<Linear<256, 128, 128, void, f16, true, false>>("--tile 256x128x128 --out f16 --grouped");
#if CUTLASS_MAJOR > 4 || (CUTLASS_MAJOR == 4 && CUTLASS_MINOR >= 5)
  row<Linear<128, 64, 256, void, float, false, true>>("--tile 128x64x256 --out f32 --schedule pingpong");
  row<Linear<128, 32, 128, float, float, true, false>>("--tile 128x32x128 --out f32 --grouped --epilogue c");
#endif
#ifdef TETRAD_FINALIZE_VISITOR
  row<Finalize<128, 256, 128, bf16, false>>("--tile 128x256x128 --grouped --epilogue finalize");
  row<Finalize<128, 256, 128, bf16, true>>("--tile 128x256x128 --grouped --epilogue finalize --swap-ab");
  row<Finalize<128, 64, 256, f16, false>>("--tile 128x64x256 --out f16 --grouped --epilogue finalize");
  row<Finalize<256, 128, 128, f16, true>>("--tile 256x128x128 --out f16 --grouped --epilogue finalize --swap-ab");
#endif
}
