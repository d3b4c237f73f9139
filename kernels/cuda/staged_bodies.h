#ifndef MOETIER_KERNELS_CUDA_STAGED_BODIES_H_
#define MOETIER_KERNELS_CUDA_STAGED_BODIES_H_

#include <cstdint>

#include "kernels/cuda/finished_sums.h"
#include "kernels/cuda/split_sums.h"

// The decode kernels of one weight type whose weights go through shared memory. Device code, C++17.
//
// Tiling: a block of threads takes units of 32 rows (two rows16 groups), gridDim.x apart, of the
// expert of blockIdx.y. It reads them as a stream of stages, each a piece of whole units of columns
// of both groups, by cp.async of 16 bytes a thread into a ring; while one stage is added up the
// others are on their way: 26 to 28 KB a block, across the borders of matrices and units.
// Each byte of the matrices is asked for once for each kPicksStaged picks of a run, in one order
// that ascends within a group, whatever their number; biases, 4 bytes a row, once a pick.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kPicksStaged = 8;
// That an SM's shared memory holds from 9.0 on; it leaves each thread 128 registers.
inline constexpr uint32_t kBlocksAnSm = 4;
inline constexpr uint32_t kRingBytesMax = 40 << 10;
inline constexpr uint32_t kStagesMax = 6;
static_assert(kRingBytesMax + 2 * kPicksStaged * kMatrixThreads * sizeof(float) <= 48 << 10,
              "more shared memory takes an attribute of the kernel");

// The stages of one weight type in shared memory; the sums lie behind them.
template <class Dots>
struct Ring {
  // The second group's piece: half the banks away from the first's, since a warp reads 64 bytes of
  // both at once.
  static constexpr uint32_t kSecondPiece =
      Dots::kPieceBytes + (Dots::kPieceBytes % 128 == 0 ? 64 : 0);
  static constexpr uint32_t kStageBytes = kSecondPiece + Dots::kPieceBytes;
  static constexpr uint32_t kFitting = kRingBytesMax / kStageBytes;
  static constexpr uint32_t kStages = kFitting < kStagesMax ? kFitting : kStagesMax;
  static_assert(kStages >= 3, "two stages on their way while one is added up");

  uint8_t* bytes;
  __device__ uint8_t* stage(uint32_t step) const { return bytes + step % kStages * kStageBytes; }
  __device__ float* sums() const { return reinterpret_cast<float*>(bytes + kStages * kStageBytes); }
};

// What a block of threads reads and what it is multiplied with. `second` is read where there are
// two matrices, which are of one type and shape.
struct StagedWork {
  const std::byte* record;
  MatrixPlace first;
  MatrixPlace second;
  uint32_t matrices;
  uint32_t rows;
  PreparedRows x;
};

// A place in the block's stream of stages.
struct StagedStep {
  uint32_t unit;
  uint32_t matrix;
  uint32_t piece;

  __device__ void Advance(uint32_t pieces, uint32_t matrices) {
    if (++piece < pieces) return;
    piece = 0;
    if (++matrix < matrices) return;
    matrix = 0;
    unit += gridDim.x;
  }
};

// Starts the step's copies; a group of copies a step even where there are none left.
template <class Dots>
__device__ __forceinline__ void Fetch(const StagedWork& work, const StagedStep& step,
                                      uint8_t* stage) {
  constexpr uint32_t kHalf = kMatrixThreads / 2;  // threads for each of the two groups
  const uint32_t group = 2 * step.unit + threadIdx.x / kHalf;
  if (16 * group < work.rows) {
    const MatrixPlace& place = step.matrix == 0 ? work.first : work.second;
    const uint64_t begin = uint64_t{step.piece} * Dots::kPieceBytes;
    const uint64_t left = place.bytes - begin;
    const auto bytes = static_cast<uint32_t>(left < Dots::kPieceBytes ? left : Dots::kPieceBytes);
    const std::byte* from = work.record + place.offset + place.stride * group + begin;
    uint8_t* to = stage + threadIdx.x / kHalf * Ring<Dots>::kSecondPiece;
#pragma unroll 1  // unrolled, its addresses push the sums out of the registers
    for (uint32_t at = 16 * (threadIdx.x % kHalf); at < bytes; at += 16 * kHalf) {
      __pipeline_memcpy_async(to + at, from + at, 16);
    }
  }
  __pipeline_commit();
}

// Adds what a stage holds to the running sums of `count` picks, this thread's own of each. Token(k)
// is the activation row of pick k.
template <class Dots, int kTokens, int kPicks, class Token>
__device__ __forceinline__ void AddStage(const StagedWork& work, const StagedStep& step,
                                         const uint8_t* stage, uint32_t count, float* sums,
                                         Token token) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t split = threadIdx.x / 32;
  const uint32_t begin = step.piece * Dots::kPieceColumns;
  const uint32_t left = work.x.columns - begin;
  const uint32_t end = begin + (left < Dots::kPieceColumns ? left : Dots::kPieceColumns);
  const bool there = 16 * (2 * step.unit + lane / 16) < work.rows;
  const StagedBytes bytes = {stage + lane / 16 * Ring<Dots>::kSecondPiece};
  float* mine = sums + (step.matrix * kSplits + split) * kPicks * kUnitRows + lane;
  for (uint32_t k = 0; k < count; k += kTokens) {
    uint32_t tokens[kTokens];
    float own[kTokens];
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      tokens[t] = token(k + t < count ? k + t : k);
      own[t] = step.piece == 0 || k + t >= count ? 0.0f : mine[(k + t) * kUnitRows];
    }
    if (there) Dots::Add(bytes, lane % 16, split, work.x, {begin, end}, tokens, own);
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      if (k + t < count) mine[(k + t) * kUnitRows] = own[t];
    }
  }
}

// All of the block's units for `count` picks. Finish(unit, k) is called by a whole warp once the
// sums of pick k are there.
template <class Dots, int kTokens, int kPicks, class Token, class Finish>
__device__ __forceinline__ void RunStaged(const StagedWork& work, const Ring<Dots>& ring,
                                          uint32_t count, Token token, Finish finish) {
  constexpr uint32_t kAhead = Ring<Dots>::kStages - 1;
  const auto pieces =
      static_cast<uint32_t>((work.first.bytes + Dots::kPieceBytes - 1) / Dots::kPieceBytes);
  StagedStep next = {blockIdx.x, 0, 0};
  for (uint32_t i = 0; i < kAhead; ++i) {
    Fetch<Dots>(work, next, ring.stage(i));
    next.Advance(pieces, work.matrices);
  }
  StagedStep step = {blockIdx.x, 0, 0};
  for (uint32_t i = 0; kUnitRows * step.unit < work.rows; ++i) {
    __pipeline_wait_prior(kAhead - 1);
    __syncthreads();  // this stage is everybody's, and nobody reads the one before any more
    Fetch<Dots>(work, next, ring.stage(i + kAhead));
    next.Advance(pieces, work.matrices);
    AddStage<Dots, kTokens, kPicks>(work, step, ring.stage(i), count, ring.sums(), token);
    if (step.piece + 1 == pieces && step.matrix + 1 == work.matrices) {
      __syncthreads();
      for (uint32_t k = threadIdx.x / 32; k < count; k += kSplits) finish(step.unit, k);
      __syncthreads();  // before the next unit's sums
    }
    step.Advance(pieces, work.matrices);
  }
}

template <class Dots, int kTokens, int kPicks>
__global__ void __launch_bounds__(kMatrixThreads, kBlocksAnSm) StagedGateUpKernel(GateUpCall call) {
  SIMT_SHARED(uint8_t, shared);
  const Ring<Dots> ring = {shared};
  const ExpertRun run = call.runs[blockIdx.y];
  const StagedWork work = {run.record, call.plan.gate, call.plan.up, 2, call.plan.ffn, call.x};
  for (uint32_t first = 0; first < run.picks; first += kPicks) {
    const uint32_t count = run.picks - first < kPicks ? run.picks - first : kPicks;
    const uint32_t* rows = call.row_of_pick + run.first_pick + first;
    RunStaged<Dots, kTokens, kPicks>(
        work, ring, count, [rows](uint32_t k) { return rows[k]; },
        [&](uint32_t unit, uint32_t k) {
          FinishGateUp<kPicks>(call, run, unit, first, k, ring.sums());
        });
  }
}

template <class Dots, int kTokens, int kPicks>
__global__ void __launch_bounds__(kMatrixThreads, kBlocksAnSm) StagedDownKernel(DownCall call) {
  SIMT_SHARED(uint8_t, shared);
  const Ring<Dots> ring = {shared};
  const ExpertRun run = call.runs[blockIdx.y];
  const MatrixPlace& place = call.plan.down_place;
  const StagedWork work = {run.record, place, place, 1, call.plan.hidden, call.h};
  for (uint32_t first = 0; first < run.picks; first += kPicks) {
    const uint32_t count = run.picks - first < kPicks ? run.picks - first : kPicks;
    const uint32_t row = run.first_pick + first;
    RunStaged<Dots, kTokens, kPicks>(
        work, ring, count, [row](uint32_t k) { return row + k; },
        [&](uint32_t unit, uint32_t k) {
          FinishDown<kPicks>(call, run, unit, first, k, ring.sums());
        });
  }
}

// `matrices` is what a block of threads reads at once, `rows` theirs.
template <class Dots, int kPicks>
simt::LaunchShape StagedShape(uint32_t blocks, uint32_t rows, uint32_t runs, uint32_t matrices) {
  const uint32_t units = UnitsOf(rows);
  constexpr size_t kRing = size_t{Ring<Dots>::kStages} * Ring<Dots>::kStageBytes;
  return {dim3(blocks < units ? blocks : units, runs), kMatrixThreads,
          kRing + size_t{matrices} * kPicks * kMatrixThreads * sizeof(float)};
}

template <class Dots>
int LaunchStagedGateUpOf(const GateUpCall& call, StreamHandle stream) {
  const uint32_t rows = call.plan.ffn;
  if (call.picks_max == 1) {
    return simt::Launch(StagedShape<Dots, 1>(call.staged_blocks, rows, call.run_count, 2), stream,
                        StagedGateUpKernel<Dots, 1, 1>, call);
  }
  return simt::Launch(StagedShape<Dots, kPicksStaged>(call.staged_blocks, rows, call.run_count, 2),
                      stream, StagedGateUpKernel<Dots, kTokensAtOnce, kPicksStaged>, call);
}

template <class Dots>
int LaunchStagedDownOf(const DownCall& call, StreamHandle stream) {
  const uint32_t rows = call.plan.hidden;
  if (call.picks_max == 1) {
    return simt::Launch(StagedShape<Dots, 1>(call.staged_blocks, rows, call.run_count, 1), stream,
                        StagedDownKernel<Dots, 1, 1>, call);
  }
  return simt::Launch(StagedShape<Dots, kPicksStaged>(call.staged_blocks, rows, call.run_count, 1),
                      stream, StagedDownKernel<Dots, kTokensAtOnce, kPicksStaged>, call);
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_STAGED_BODIES_H_
