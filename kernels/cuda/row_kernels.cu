#include "kernels/cuda/device_math.h"
#include "kernels/cuda/expert_kernels.h"
#include "kernels/cuda/simt/simt.h"

// What stands before and after the dots: preparing rows, and the sum over picks.

namespace moetier::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / 32;

// A warp a block of 32 columns; blockIdx.y is the row.
__global__ void __launch_bounds__(kThreads) PrepareKernel(PrepareCall call) {
  const uint32_t block = kWarps * blockIdx.x + threadIdx.x / 32;
  if (block >= call.out.blocks) return;
  const uint32_t column = 32 * block + threadIdx.x % 32;
  const uint32_t row = blockIdx.y;
  const bool there = column < call.out.columns;
  StorePrepared(call.out, row, block,
                there ? call.values[size_t{row} * call.out.columns + column] : 0.0f);
}

// A thread a column; blockIdx.y is the row. No atomics: the order of the sum is the request's.
__global__ void __launch_bounds__(kThreads) CombineKernel(CombineCall call) {
  const uint32_t column = kThreads * blockIdx.x + threadIdx.x;
  if (column >= call.hidden) return;
  const uint32_t row = blockIdx.y;
  float out = 0.0f;
  for (uint32_t k = call.first_of_row[row]; k < call.first_of_row[row + 1]; ++k) {
    const float y = call.y[size_t{call.pick_in_order[k]} * call.hidden + column];
    out = __fmaf_rn(call.weight_in_order[k], y, out);
  }
  call.out[size_t{row} * call.hidden + column] = OneNan(out);
}

}  // namespace

int LaunchPrepare(const PrepareCall& call, StreamHandle stream) {
  const dim3 grid((call.out.blocks + kWarps - 1) / kWarps, call.rows);
  return simt::Launch({grid, kThreads, 0}, stream, PrepareKernel, call);
}

int LaunchCombine(const CombineCall& call, StreamHandle stream) {
  const dim3 grid((call.hidden + kThreads - 1) / kThreads, call.rows);
  return simt::Launch({grid, kThreads, 0}, stream, CombineKernel, call);
}

}  // namespace moetier::kernels::cuda
