#ifndef MOETIER_KERNELS_CUDA_DECODE_BODIES_H_
#define MOETIER_KERNELS_CUDA_DECODE_BODIES_H_

#include <cstdint>

#include "kernels/cuda/finished_sums.h"
#include "kernels/cuda/split_sums.h"

// The decode kernels of one weight type, for the .cu files. Device code, C++17.
//
// Tiling: a block of threads computes 32 rows (two rows16 groups) of one expert for up to kTokens
// picks at a time; its unit is blockIdx.x, its run blockIdx.y. A warp has one running sum of all 32
// rows, so each of its loads is two whole 64-byte pieces; the four sums meet in shared memory, and
// a warp a pick finishes the 32 values: one activation block of h, which it quantises alone.

namespace moetier::kernels::cuda {

// What one matrix of the block adds up. `sums` is [kSplits][kTokens][kUnitRows].
template <class Dots, int kTokens>
__device__ __forceinline__ void PutSums(const std::byte* record, const MatrixPlace& place,
                                        uint32_t rows, uint32_t unit, uint32_t split,
                                        const PreparedRows& x, const uint32_t (&tokens)[kTokens],
                                        float* sums) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t group = 2 * unit + lane / 16;
  float own[kTokens] = {};
  if (16 * group < rows) {
    const auto* at = reinterpret_cast<const uint8_t*>(record) + place.offset + place.stride * group;
    Dots::Add(at, lane % 16, split, x, {0, x.columns}, tokens, own);
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    sums[(split * kTokens + static_cast<uint32_t>(t)) * kUnitRows + lane] = own[t];
  }
}

template <class Dots, int kTokens>
__global__ void __launch_bounds__(2 * kMatrixThreads) GateUpKernel(GateUpCall call) {
  SIMT_SHARED(float, sums);  // [2][kSplits][kTokens][kUnitRows]
  constexpr uint32_t kMatrixSums = kSplits * kTokens * kUnitRows;
  const ExpertRun run = call.runs[blockIdx.y];
  const ExpertPlan& plan = call.plan;
  const uint32_t unit = blockIdx.x;
  const uint32_t warp = threadIdx.x / 32;
  const bool is_up = warp >= kSplits;
  for (uint32_t first = 0; first < run.picks; first += kTokens) {
    const uint32_t count = run.picks - first < kTokens ? run.picks - first : kTokens;
    uint32_t tokens[kTokens];
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      tokens[t] = call.row_of_pick[run.first_pick + first + (t < count ? t : 0)];
    }
    PutSums<Dots>(run.record, is_up ? plan.up : plan.gate, plan.ffn, unit, warp % kSplits, call.x,
                  tokens, sums + (is_up ? kMatrixSums : 0));
    __syncthreads();
    if (warp < count) FinishGateUp<kTokens>(call, run, unit, first, warp, sums);
    __syncthreads();  // before the next picks' sums
  }
}

template <class Dots, int kTokens>
__global__ void __launch_bounds__(kMatrixThreads) DownKernel(DownCall call) {
  SIMT_SHARED(float, sums);  // [kSplits][kTokens][kUnitRows]
  const ExpertRun run = call.runs[blockIdx.y];
  const ExpertPlan& plan = call.plan;
  const uint32_t warp = threadIdx.x / 32;
  for (uint32_t first = 0; first < run.picks; first += kTokens) {
    const uint32_t count = run.picks - first < kTokens ? run.picks - first : kTokens;
    uint32_t tokens[kTokens];
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) tokens[t] = run.first_pick + first + (t < count ? t : 0);
    PutSums<Dots>(run.record, plan.down_place, plan.hidden, blockIdx.x, warp, call.h, tokens, sums);
    __syncthreads();
    if (warp < count) FinishDown<kTokens>(call, run, blockIdx.x, first, warp, sums);
    __syncthreads();  // before the next picks' sums
  }
}

template <class Dots>
int LaunchGateUpOf(const GateUpCall& call, StreamHandle stream) {
  const dim3 grid(UnitsOf(call.plan.ffn), call.run_count);
  constexpr size_t kSumsBytes = 2 * kMatrixThreads * sizeof(float);
  if (call.picks_max == 1) {
    return simt::Launch({grid, 2 * kMatrixThreads, kSumsBytes}, stream, GateUpKernel<Dots, 1>,
                        call);
  }
  return simt::Launch({grid, 2 * kMatrixThreads, kTokensAtOnce * kSumsBytes}, stream,
                      GateUpKernel<Dots, kTokensAtOnce>, call);
}

template <class Dots>
int LaunchDownOf(const DownCall& call, StreamHandle stream) {
  const dim3 grid(UnitsOf(call.plan.hidden), call.run_count);
  constexpr size_t kSumsBytes = kMatrixThreads * sizeof(float);
  if (call.picks_max == 1) {
    return simt::Launch({grid, kMatrixThreads, kSumsBytes}, stream, DownKernel<Dots, 1>, call);
  }
  return simt::Launch({grid, kMatrixThreads, kTokensAtOnce * kSumsBytes}, stream,
                      DownKernel<Dots, kTokensAtOnce>, call);
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_DECODE_BODIES_H_
