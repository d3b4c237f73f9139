#ifndef MOETIER_KERNELS_CUDA_INTEGER_MMA_H_
#define MOETIER_KERNELS_CUDA_INTEGER_MMA_H_

#include <cstdint>

#include "kernels/cuda/simt/simt.h"
#if !defined(__CUDACC__)
#include "kernels/cuda/simt/tensor_operations.h"
#endif

// A tensor core's exact step: c[16][8] += a[16][kColumns] * b[kColumns][8], signed bytes into
// 32-bit sums, kColumns 16 or 32. By all lanes of a warp at one place. Which elements a lane's
// words hold: simt/tensor_operations.h, after PTX's mma.m16n8k16 and mma.m16n8k32. Device code,
// C++17.

namespace moetier::kernels::cuda {

#if defined(__CUDACC__)

__device__ __forceinline__ void MultiplyBytes16(int32_t (&c)[4], const uint32_t (&a)[2],
                                                const uint32_t (&b)[1]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

__device__ __forceinline__ void MultiplyBytes32(int32_t (&c)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

inline void MultiplyBytes16(int32_t (&c)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                            SIMT_PLACE) {
  simt::MultiplyBytes<16>(c, a, b, {file, line});
}

inline void MultiplyBytes32(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                            SIMT_PLACE) {
  simt::MultiplyBytes<32>(c, a, b, {file, line});
}

#endif

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_INTEGER_MMA_H_
