// Instruction wrappers of the sm_80 rows: streaming loads, ldmatrix, mma.sync, and mma16/1 words as its operands.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tetrad::kernels::sm80 {

__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most `Pending` of this thread's newest groups are unfinished.
template <int Pending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Named barriers: `threads` of the block meet, those that only arrive go on at once.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ uint4 load_shared(std::uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from));
  return v;
}

__device__ __forceinline__ std::uint32_t load_shared_u16(std::uint32_t from) {
  std::uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(from));
  return v;
}

__device__ __forceinline__ uint4 load_matrix(std::uint32_t from) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from));
  return v;
}

// The four registers of an m16n8k16 A operand.
struct OperandA {
  std::uint32_t r[4];
};

template <class T>
struct Arithmetic;

// A code's bits as a bf16 are e2m1 * 2^-126, a scale's are ue4m3 * 2^-120; both are exact there, subnormals included.
// Times 2^119 twice, their product is e2m1 * ue4m3 * 2^-8: six significant bits, exact.
template <>
struct Arithmetic<__nv_bfloat16> {
  static __device__ __forceinline__ std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000U));
    return d;
  }
  // Two scale bytes (low 16 bits of `pair`) to two factors.
  static __device__ __forceinline__ std::uint32_t scales(std::uint32_t pair) {
    const std::uint32_t bits = __byte_perm(pair, 0, 0x4140) << 4 & 0x07F007F0U;
    constexpr std::uint32_t k2To119 = 0x7B007B00U;
    return multiply(multiply(bits, k2To119), k2To119);
  }
  // The codes of a word, unscaled. Isolating a nibble keeps the product of both shifts inside its half.
  static __device__ __forceinline__ OperandA codes(std::uint32_t w) {
    constexpr std::uint32_t kMask = 0x81C081C0U;
    const std::uint32_t v = w >> 8;
    return {{(w & 0x000F000FU) * 0x1040U & kMask, (v & 0x000F000FU) * 0x1040U & kMask,
             (w & 0x00F000F0U) * 0x0104U & kMask, (v & 0x00F000F0U) * 0x0104U & kMask}};
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const OperandA& a, std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
  }
};

// As above: codes are e2m1 * 2^-14, scales ue4m3 * 2^-8, times 2^14.
template <>
struct Arithmetic<__half> {
  static __device__ __forceinline__ std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
  }
  static __device__ __forceinline__ std::uint32_t scales(std::uint32_t pair) {
    return multiply(__byte_perm(pair, 0, 0x4140) << 7 & 0x3F803F80U, 0x74007400U);
  }
  static __device__ __forceinline__ OperandA codes(std::uint32_t w) {
    constexpr std::uint32_t kSign = 0x80008000U;
    constexpr std::uint32_t kRest = 0x0E000E00U;
    return {{(w << 12 & kSign) | (w << 9 & kRest), (w << 4 & kSign) | (w << 1 & kRest),
             (w << 8 & kSign) | (w << 5 & kRest), (w & kSign) | (w >> 3 & kRest)}};
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const OperandA& a, std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
  }
};
// What the products above are smaller by.
inline constexpr float kProductScale = 256.0F;

// Rows g take the low factor, rows g + 8 the high one.
template <class T>
__device__ __forceinline__ OperandA scaled(OperandA a, std::uint32_t factors) {
  const std::uint32_t low = __byte_perm(factors, 0, 0x1010);
  const std::uint32_t high = __byte_perm(factors, 0, 0x3232);
  a.r[0] = Arithmetic<T>::multiply(a.r[0], low);
  a.r[1] = Arithmetic<T>::multiply(a.r[1], high);
  a.r[2] = Arithmetic<T>::multiply(a.r[2], low);
  a.r[3] = Arithmetic<T>::multiply(a.r[3], high);
  return a;
}

}  // namespace tetrad::kernels::sm80
