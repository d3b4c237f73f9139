#ifndef MOETIER_KERNELS_CUDA_SIMT_TENSOR_OPERATIONS_H_
#define MOETIER_KERNELS_CUDA_SIMT_TENSOR_OPERATIONS_H_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/simt/cuda_thread.h"
#include "kernels/cuda/simt/grid.h"
#include "kernels/cuda/simt/warp_operations.h"

// A tensor core's step as a meeting of a whole warp: PTX's mma.sync.aligned.m16n8kK.row.col of
// signed bytes into 32-bit sums, with its layout of the operands over the lanes.

namespace moetier::simt {

// What a lane brings: its words of the first and second operand.
struct ByteFragments {
  const uint32_t* a;
  const uint32_t* b;
};

inline int8_t ByteOf(uint32_t word, unsigned index) {
  return static_cast<int8_t>(word >> (8 * index) & 0xFF);
}

// The instruction is .aligned: a warp whose lanes reach it at different places is no warp to it.
inline void RequireOnePlace(const Warp& warp) {
  const Place& first = warp.lanes[0]->place;
  for (const CudaThread* thread : warp.lanes) {
    if (thread->place.line == first.line && std::strcmp(thread->place.file, first.file) == 0) {
      continue;
    }
    thread->grid->Fail("a tensor core's step that lanes of one warp reach at different places",
                       *thread);
  }
}

// c[16][8] += a[16][kColumns] * b[kColumns][8], wrapping; c is the lanes' `out`. With g = lane / 4
// and t = lane % 4: word r of a is row g + 8 * (r % 2), columns 16 * (r / 2) + 4t and the next
// three; word r of b the same columns of its column g; c[i] is row g + 8 * (i / 2), column
// 2t + i % 2.
template <unsigned kColumns>
void MultiplyBytesOperation(Warp& warp, uint32_t) {
  RequireOnePlace(warp);
  int8_t a[16][kColumns];
  int8_t b[8][kColumns];
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    const unsigned g = lane / 4;
    const unsigned t = lane % 4;
    const auto* own = static_cast<const ByteFragments*>(warp.lanes[lane]->meeting.in);
    for (unsigned i = 0; i < 4; ++i) {
      for (unsigned r = 0; r < kColumns / 8; ++r) {
        a[g + 8 * (r % 2)][16 * (r / 2) + 4 * t + i] = ByteOf(own->a[r], i);
      }
      for (unsigned r = 0; r < kColumns / 16; ++r) {
        b[g][16 * r + 4 * t + i] = ByteOf(own->b[r], i);
      }
    }
  }
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    auto* c = static_cast<int32_t*>(warp.lanes[lane]->meeting.out);
    for (unsigned i = 0; i < 4; ++i) {
      const int8_t* row = a[lane / 4 + 8 * (i / 2)];
      const int8_t* column = b[lane % 4 * 2 + i % 2];
      int32_t dot = 0;
      for (unsigned k = 0; k < kColumns; ++k) dot += row[k] * column[k];
      c[i] = static_cast<int32_t>(static_cast<uint32_t>(c[i]) + static_cast<uint32_t>(dot));
    }
  }
}

// On a fiber of a Grid, by all lanes of its warp.
template <unsigned kColumns>
void MultiplyBytes(int32_t (&c)[4], const uint32_t (&a)[kColumns / 8],
                   const uint32_t (&b)[kColumns / 16], const Place& place) {
  const ByteFragments own = {a, b};
  current_thread->grid->Meet({0xFFFFFFFF, MultiplyBytesOperation<kColumns>, &own, &c, 0}, place);
}

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_TENSOR_OPERATIONS_H_
