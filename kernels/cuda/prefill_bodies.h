#ifndef MOETIER_KERNELS_CUDA_PREFILL_BODIES_H_
#define MOETIER_KERNELS_CUDA_PREFILL_BODIES_H_

#include <cstdint>

#include "kernels/cuda/prefill_parts.h"

// The prefill kernels of one weight type, for the .cu files. Device code, C++17.
//
// Tiling: a block of eight warps computes 32 rows of gate and of up, or 64 rows of down, for a tile
// of Tile::kTokens picks of one expert: blockIdx.x is the tile, so that blocks which read the same
// weights run together, .y the rows, .z the run. Warps 0..3 have the four running sums of the first
// 32 rows, warps 4..7 of the others. Each byte of weights is loaded once a tile, straight into the
// registers that the tensor core wants; activations are copied once a tile into shared memory.

namespace moetier::kernels::cuda {

// The dot of row `row`, this lane's of 32, with a token.
__device__ __forceinline__ float TakeDot(const TileSums& shared, uint32_t half, uint32_t token,
                                         const std::byte* record, uint64_t bias, uint32_t row) {
  const uint32_t lane = threadIdx.x % 32;
  const auto& own = shared.of[half];
  return DotOf({own[0][token][lane], own[1][token][lane], own[2][token][lane], own[3][token][lane]},
               record, bias, row);
}

// Of shared memory: the sums take the place of the stages.
template <class Tile>
constexpr size_t SharedBytes() {
  return Tile::kStageBytes < sizeof(TileSums) ? sizeof(TileSums) : Tile::kStageBytes;
}

// All dots of the tile; then, for each 16 of its tokens, `finish(sums, first, tokens)` by every
// warp: tokens first .. first + tokens - 1 of the tile stand in `sums`.
template <class Tile, class RowOf, class Finish>
__device__ __forceinline__ void ComputeTile(const GroupPair& groups, const PreparedRows& x,
                                            uint32_t count, RowOf row_of, unsigned char* shared,
                                            Finish finish) {
  typename Tile::Sums sums = {};
  Tile::Add(groups, x, count, row_of, shared, sums);
  auto& meeting = *reinterpret_cast<TileSums*>(shared);
  const uint32_t warp = threadIdx.x / 32;
#pragma unroll
  for (uint32_t chunk = 0; chunk < Tile::kTokens / kSumTokens; ++chunk) {
    const uint32_t first = kSumTokens * chunk;
    if (first >= count) break;
    Tile::Put(sums, chunk, meeting.of[warp / kSplits][warp % kSplits]);
    __syncthreads();
    finish(meeting, first, count - first < kSumTokens ? count - first : kSumTokens);
    __syncthreads();  // before the next sums
  }
}

// What this block of threads works for. Read once more for the end: while sums are added no
// register is free to keep it.
struct TilePicks {
  __device__ TilePicks(const ExpertRun* runs, uint32_t tokens) {
    const ExpertRun run = runs[blockIdx.z];
    const uint32_t before = tokens * blockIdx.x;
    const uint32_t left = before < run.picks ? run.picks - before : 0;
    record = run.record;
    first_pick = run.first_pick + before;
    count = left < tokens ? left : tokens;
  }
  const std::byte* record;
  uint32_t first_pick;
  uint32_t count;  // 0: the run is shorter than others
};

template <class Tile>
__global__ void __launch_bounds__(kTileThreads, 2) PrefillGateUpKernel(GateUpCall call) {
  SIMT_SHARED(unsigned char, shared);
  const TilePicks tile(call.runs, Tile::kTokens);
  if (tile.count == 0) return;
  const ExpertPlan& plan = call.plan;
  const bool is_up = threadIdx.x / 32 >= kSplits;
  ComputeTile<Tile>(
      GroupPair(tile.record, is_up ? plan.up : plan.gate, plan.ffn, 2 * blockIdx.y), call.x,
      tile.count, [&](uint32_t token) { return call.row_of_pick[tile.first_pick + token]; }, shared,
      [&call](const TileSums& sums, uint32_t first, uint32_t tokens) {
        const TilePicks picks(call.runs, Tile::kTokens);
        const uint32_t row = kUnitRows * blockIdx.y + threadIdx.x % 32;
        for (uint32_t token = threadIdx.x / 32; token < tokens; token += 2 * kSplits) {
          float h = 0;
          if (row < call.plan.ffn) {
            h = Activate(call.plan.activation,
                         TakeDot(sums, 0, token, picks.record, call.plan.gate_bias, row),
                         TakeDot(sums, 1, token, picks.record, call.plan.up_bias, row));
          }
          StorePrepared(call.h, picks.first_pick + first + token, blockIdx.y, h);
        }
      });
}

template <class Tile>
__global__ void __launch_bounds__(kTileThreads, 2) PrefillDownKernel(DownCall call) {
  SIMT_SHARED(unsigned char, shared);
  const TilePicks tile(call.runs, Tile::kTokens);
  if (tile.count == 0) return;
  const uint32_t half = threadIdx.x / 32 / kSplits;
  const uint32_t unit = 2 * blockIdx.y + half;
  ComputeTile<Tile>(
      GroupPair(tile.record, call.plan.down_place, call.plan.hidden, 2 * unit), call.h, tile.count,
      [&](uint32_t token) { return tile.first_pick + token; }, shared,
      [&call, half, unit](const TileSums& sums, uint32_t first, uint32_t tokens) {
        const TilePicks picks(call.runs, Tile::kTokens);
        const uint32_t row = kUnitRows * unit + threadIdx.x % 32;
        if (row >= call.plan.hidden) return;
        for (uint32_t token = threadIdx.x / 32 % kSplits; token < tokens; token += kSplits) {
          const float y = TakeDot(sums, half, token, picks.record, call.plan.down_bias, row);
          call.y[size_t{picks.first_pick + first + token} * call.plan.hidden + row] = OneNan(y);
        }
      });
}

template <class Tile>
int LaunchPrefillGateUpOf(const GateUpCall& call, StreamHandle stream) {
  const dim3 grid(TilesOf(call.picks_max, Tile::kTokens), UnitsOf(call.plan.ffn), call.run_count);
  return simt::Launch({grid, kTileThreads, SharedBytes<Tile>()}, stream, PrefillGateUpKernel<Tile>,
                      call);
}

template <class Tile>
int LaunchPrefillDownOf(const DownCall& call, StreamHandle stream) {
  const dim3 grid(TilesOf(call.picks_max, Tile::kTokens), TilesOf(call.plan.hidden, 2 * kUnitRows),
                  call.run_count);
  return simt::Launch({grid, kTileThreads, SharedBytes<Tile>()}, stream, PrefillDownKernel<Tile>,
                      call);
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_PREFILL_BODIES_H_
