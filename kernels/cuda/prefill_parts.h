#ifndef MOETIER_KERNELS_CUDA_PREFILL_PARTS_H_
#define MOETIER_KERNELS_CUDA_PREFILL_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/split_sums.h"

// What the tiles of integer and of float types share. Device code, C++17.
//
// A tile is a type with
//   kTokens      how many tokens it has at most, a multiple of kSumTokens;
//   kStageBytes  of shared memory that Add needs;
//   Sums         what one lane adds up: its share of one running sum of 32 rows with all tokens;
//   Add          by the whole thread block: all columns of its warp's running sum. It ends behind
//                a barrier, with the shared memory free;
//   Put          the lane's sums of tokens kSumTokens * chunk and on, where everybody finds them.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kTileThreads = 2 * kSplits * 32;
inline constexpr uint32_t kSumTokens = 16;  // whose sums meet in shared memory at once
// Floats from a token's sums to the next: 32 rows, and 4 so that no two lanes of a warp that stores
// meet in a bank.
inline constexpr uint32_t kSumStride = kUnitRows + 4;

// In shared memory: the sums of a warp, and of all warps of both halves.
using WarpSums = float[kSumTokens][kSumStride];
struct TileSums {
  WarpSums of[2][kSplits];
};

// Asks for what will be read in some hundred cycles; may do nothing.
__device__ __forceinline__ void PrefetchToL2([[maybe_unused]] const uint8_t* at) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

// Two groups of a matrix from `group` on. One beyond the last is the last again: what is computed
// of it has no row and is dropped.
struct GroupPair {
  __device__ GroupPair(const std::byte* record, const MatrixPlace& place, uint32_t rows,
                       uint32_t group) {
    const uint32_t last = (rows + 15) / 16 - 1;
    const uint32_t own = group < last ? group : last;
    first = reinterpret_cast<const uint8_t*>(record) + place.offset + place.stride * own;
    to_second = own < last ? static_cast<uint32_t>(place.stride) : 0;
  }
  __device__ const uint8_t* At(uint32_t i) const { return first + i * to_second; }

  const uint8_t* first;
  uint32_t to_second;  // bytes; of 16 rows, and twice where gate and up alternate
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_PREFILL_PARTS_H_
