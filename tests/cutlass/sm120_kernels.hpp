// SM120 NVFP4 kernels of CUTLASS by tile, epilogue, output, schedule: the types whose sizes the account is compared
// with.
#pragma once

#include "cutlass/cutlass.h"
// The order matters: the visitor of the finalize epilogue needs the collectives.
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/default_epilogue.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#ifdef TETRAD_FINALIZE_VISITOR
#include "cutlass_extensions/epilogue/fusion/sm90_visitor_scatter.hpp"
#endif

namespace tetrad_cutlass {

template <class Stages, class Epilogue>
struct StagesOf {
  using type = Stages;
};
// Without a policy of the caller: CUTLASS's, told what the epilogue takes.
template <class Epilogue>
struct StagesOf<void, Epilogue> {
  using type =
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>;
};

// A kernel from an epilogue. Stages: a stage-count type, or void for CUTLASS's own choice.
template <class Tile, class Epilogue, bool Grouped, bool Pingpong, class Stages>
struct Assemble {
  using Element = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
  using LayoutA = std::conditional_t<Grouped, cutlass::layout::RowMajor*, cutlass::layout::RowMajor>;
  using LayoutB = std::conditional_t<Grouped, cutlass::layout::ColumnMajor*, cutlass::layout::ColumnMajor>;
  using Schedule =
      std::conditional_t<Grouped,
                         std::conditional_t<Pingpong, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                            cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>,
                         std::conditional_t<Pingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                            cutlass::gemm::KernelTmaWarpSpecializedCooperative>>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Element, LayoutA, 32, Element, LayoutB, 32,
      float, Tile, cute::Shape<cute::_1, cute::_1, cute::_1>, typename StagesOf<Stages, Epilogue>::type,
      Schedule>::CollectiveOp;
  using Problem = std::conditional_t<Grouped, cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>,
                                     cute::Shape<int, int, int, int>>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue, void>;
};

template <int M, int N, int K>
using TileOf = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;

// Linear combination; C: void or the type of D.
template <class Tile, class C, class D, bool Grouped, bool Pingpong>
using LinearEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Tile, cute::Shape<cute::_1, cute::_1, cute::_1>,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, C,
    std::conditional_t<Grouped, cutlass::layout::RowMajor*, cutlass::layout::RowMajor>,
    128 / cutlass::sizeof_bits<D>::value, D,
    std::conditional_t<Grouped, cutlass::layout::RowMajor*, cutlass::layout::RowMajor>,
    128 / cutlass::sizeof_bits<D>::value,
    std::conditional_t<Grouped && Pingpong, cutlass::epilogue::collective::EpilogueScheduleAuto,
                       cutlass::epilogue::collective::EpilogueScheduleAuto>>::CollectiveOp;

template <int M, int N, int K, class C, class D, bool Grouped, bool Pingpong, class Stages = void>
using Linear =
    Assemble<TileOf<M, N, K>, LinearEpilogue<TileOf<M, N, K>, C, D, Grouped, Pingpong>, Grouped, Pingpong, Stages>;

#ifdef TETRAD_FINALIZE_VISITOR
// TensorRT-LLM's fused finalize as FlashInfer carries it: D is void, rows are scattered by the visitor.
template <class Tile, class Out, bool SwapAB>
struct FinalizeEpilogue {
  using Layout = std::conditional_t<SwapAB, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
  using Fusion = std::conditional_t<
      SwapAB, cutlass::epilogue::fusion::ScaledAccPerRowBiasPerColScaleScatter<Layout, Out, float, Out, float>,
      cutlass::epilogue::fusion::ScaledAccPerColBiasPerRowScaleScatter<Layout, Out, float, Out, float>>;
  static constexpr int kAlign = 128 / cutlass::sizeof_bits<Out>::value;
  using type = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Tile, cute::Shape<cute::_1, cute::_1, cute::_1>,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Out, Layout*, kAlign, void, Layout*, kAlign,
      cutlass::epilogue::TmaWarpSpecialized, Fusion>::CollectiveOp;
};

template <int M, int N, int K, class Out, bool SwapAB, class Stages = void>
using Finalize =
    Assemble<TileOf<M, N, K>, typename FinalizeEpilogue<TileOf<M, N, K>, Out, SwapAB>::type, true, false, Stages>;
#endif

}  // namespace tetrad_cutlass
