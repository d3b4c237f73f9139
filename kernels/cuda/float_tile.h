#ifndef MOETIER_KERNELS_CUDA_FLOAT_TILE_H_
#define MOETIER_KERNELS_CUDA_FLOAT_TILE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/prefill_parts.h"

// The tile of a float weight type: one of the four running sums of 32 rows' dots with up to 48
// tokens. Columns are added one by one in ascending order, which no tensor core keeps, so this is
// plain f32 from registers: a lane has four neighbouring rows and every fourth token, and a value
// of the activations, once loaded, serves four rows. Device code, C++17.

namespace moetier::kernels::cuda {

template <class Format>
struct FloatTile {
  static constexpr uint32_t kTokens = 48;  // what 128 registers a thread leave room for
  static constexpr uint32_t kLaneTokens = kTokens / 4;
  static constexpr uint32_t kLaneRows = 4;
  static constexpr uint32_t kStageColumns = 32;
  static constexpr uint32_t kStagePairs = kStageColumns / 2 / kSplits;  // of one running sum
  // Floats from a token to the next in a stage: 4 more than there are columns, so that the four
  // tokens that a warp reads at once lie in different banks.
  static constexpr uint32_t kStride = kStageColumns + 4;
  using Stage = float[kTokens][kStride];
  static constexpr size_t kStageBytes = 2 * sizeof(Stage);
  using Sums = float[kLaneTokens][kLaneRows];

  template <class RowOf>
  static __device__ __forceinline__ void Add(const GroupPair& groups, const PreparedRows& x,
                                             uint32_t count, RowOf row_of, unsigned char* shared,
                                             Sums& sums) {
    auto* stages = reinterpret_cast<Stage*>(shared);
    const uint32_t split = threadIdx.x / 32 % kSplits;
    const uint8_t* group = groups.At(threadIdx.x % 32 / 16);
    Copy(x, count, row_of, 0, stages[0]);
    __pipeline_commit();
#pragma unroll 1
    for (uint32_t stage = 0; stage < x.blocks; ++stage) {
      const uint32_t columns = x.columns - kStageColumns * stage;
      const uint8_t* lines = group + size_t{kStageColumns} * Format::kColumnBytes * stage;
      Weights weights;
      Load(lines, columns, split, weights);
      __pipeline_wait_prior(0);
      __syncthreads();
      if (stage + 1 < x.blocks) Copy(x, count, row_of, stage + 1, stages[(stage + 1) % 2]);
      __pipeline_commit();
      const float* values = stages[stage % 2][threadIdx.x % 4];
      if (columns >= kStageColumns) {
        AddTokens<true>(weights, columns, split, count, values, sums);
      } else {
        AddTokens<false>(weights, columns, split, count, values, sums);
      }
    }
    __syncthreads();
  }

  static __device__ __forceinline__ void Put(const Sums& sums, uint32_t chunk, WarpSums& own) {
#pragma unroll
    for (uint32_t k = 0; k < kSumTokens / 4; ++k) {
#pragma unroll
      for (uint32_t r = 0; r < kLaneRows; ++r) {
        own[4 * k + threadIdx.x % 4][kLaneRows * (threadIdx.x % 32 / 4) + r] =
            sums[kSumTokens / 4 * chunk + k][r];
      }
    }
  }

 private:
  using Weights = float[kStagePairs][kLaneRows][2];

  // The values of `stage` of all tokens, asynchronously, two pieces of 16 bytes a thread.
  template <class RowOf>
  static __device__ __forceinline__ void Copy(const PreparedRows& x, uint32_t count, RowOf row_of,
                                              uint32_t stage, Stage& to) {
    constexpr uint32_t kPieces = kStageColumns / 4;
    const uint32_t column = 4 * (threadIdx.x % kPieces);
    for (uint32_t token = threadIdx.x / kPieces; token < count; token += kTileThreads / kPieces) {
      const size_t block = size_t{row_of(token)} * x.blocks + stage;
      __pipeline_memcpy_async(&to[token][column], x.values + kStageColumns * block + column, 16);
    }
  }

  // This lane's rows of the stage's pairs of columns: split, split + 4, ... `columns` are left from
  // the stage's first on.
  static __device__ __forceinline__ void Load(const uint8_t* lines, uint32_t columns,
                                              uint32_t split, Weights& weights) {
    const uint32_t first_row = kLaneRows * (threadIdx.x % 16 / 4);
#pragma unroll
    for (uint32_t i = 0; i < kStagePairs; ++i) {
      const uint32_t pair = kSplits * i + split;
#pragma unroll
      for (uint32_t r = 0; r < kLaneRows; ++r) {
        const uint32_t row = first_row + r;
        weights[i][r][0] = 2 * pair < columns ? Format::First(lines, row, pair) : 0.0f;
        weights[i][r][1] = 2 * pair + 1 < columns ? Format::Second(lines, row, pair) : 0.0f;
      }
    }
  }

  // Nothing is added for a column that is not there: a zero would turn a sum of -0.
  template <bool kWhole>
  static __device__ __forceinline__ void AddTokens(const Weights& weights, uint32_t columns,
                                                   uint32_t split, uint32_t count,
                                                   const float* values, Sums& sums) {
#pragma unroll
    for (uint32_t k = 0; k < kLaneTokens; ++k) {
      if (4 * k >= count) break;
#pragma unroll
      for (uint32_t i = 0; i < kStagePairs; ++i) {
        const uint32_t column = 2 * (kSplits * i + split);
        const auto x = *reinterpret_cast<const float2*>(values + 4 * kStride * k + column);
#pragma unroll
        for (uint32_t r = 0; r < kLaneRows; ++r) {
          float& sum = sums[k][r];
          if (kWhole || column < columns) sum = __fmaf_rn(weights[i][r][0], x.x, sum);
          if (kWhole || column + 1 < columns) sum = __fmaf_rn(weights[i][r][1], x.y, sum);
        }
      }
    }
  }
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_FLOAT_TILE_H_
