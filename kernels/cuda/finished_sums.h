#ifndef MOETIER_KERNELS_CUDA_FINISHED_SUMS_H_
#define MOETIER_KERNELS_CUDA_FINISHED_SUMS_H_

#include <cstdint>

#include "kernels/cuda/device_math.h"
#include "kernels/cuda/split_sums.h"

// What becomes of a unit's running sums, which lie in shared memory: the same for every way that
// the weights took. `sums` is [matrices][kSplits][kTokens][kUnitRows]; a whole warp finishes one
// pick, the one at `at` of those that begin with the run's pick `first`. Device code, C++17.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kMatrixThreads = kSplits * kUnitRows;
inline constexpr int kTokensAtOnce = 4;

// The dot of this lane's row of the unit with token t.
template <int kTokens>
__device__ __forceinline__ float TakeDot(const float* sums, uint32_t t, const std::byte* record,
                                         uint64_t bias, uint32_t row) {
  const float* own = sums + t * kUnitRows + threadIdx.x % 32;
  constexpr uint32_t kNext = kTokens * kUnitRows;
  return DotOf({own[0], own[kNext], own[2 * kNext], own[3 * kNext]}, record, bias, row);
}

template <int kTokens>
__device__ __forceinline__ void FinishGateUp(const GateUpCall& call, const ExpertRun& run,
                                             uint32_t unit, uint32_t first, uint32_t at,
                                             const float* sums) {
  const ExpertPlan& plan = call.plan;
  const uint32_t row = kUnitRows * unit + threadIdx.x % 32;
  float h = 0;
  if (row < plan.ffn) {
    const float* up_sums = sums + kTokens * kMatrixThreads;
    h = Activate(plan.activation, TakeDot<kTokens>(sums, at, run.record, plan.gate_bias, row),
                 TakeDot<kTokens>(up_sums, at, run.record, plan.up_bias, row));
  }
  StorePrepared(call.h, run.first_pick + first + at, unit, h);
}

template <int kTokens>
__device__ __forceinline__ void FinishDown(const DownCall& call, const ExpertRun& run,
                                           uint32_t unit, uint32_t first, uint32_t at,
                                           const float* sums) {
  const uint32_t row = kUnitRows * unit + threadIdx.x % 32;
  if (row >= call.plan.hidden) return;
  const float y = TakeDot<kTokens>(sums, at, run.record, call.plan.down_bias, row);
  call.y[size_t{run.first_pick + first + at} * call.plan.hidden + row] = OneNan(y);
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_FINISHED_SUMS_H_
