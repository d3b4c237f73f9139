#ifndef MOETIER_KERNELS_CUDA_EXPERT_KERNELS_H_
#define MOETIER_KERNELS_CUDA_EXPERT_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/weight_type.h"

// Experts on a GPU, over one row or thousands, in the canonical arithmetic: the bits of
// kernels/reference. Which kernel computes a call shows in its time alone.
// Plain C++17, so that nvcc and the host's compiler read the same header. Every pointer below is
// device memory, records perhaps the host's as the device sees it, read and written when the kernel
// runs; the caller keeps it until then.
// Each launch returns the runtime's error code, 0 for success; an error of the kernel itself shows
// when the stream is waited for. Threads: any, one stream from one thread at a time.

namespace moetier::kernels::cuda {

using StreamHandle = void*;  // a cudaStream_t, or a simt::Stream of the emulator

inline constexpr uint32_t kUnitRows = 32;  // rows of a matrix that one block of threads computes
inline constexpr uint64_t kNoBias = ~uint64_t{0};
inline constexpr size_t kPlaneAlignment = 16;  // of values and codes, copied so wide

// Rows of activations ready for dots, as kernels/activation_rows.h defines them, in five planes.
// `blocks` is columns / 32, rounded up; what pads a row is zero. 4-byte aligned, values
// and codes by kPlaneAlignment.
struct PreparedRows {
  float* values;       // [rows][32 * blocks]
  int8_t* codes;       // [rows][32 * blocks]
  float* scales;       // [rows][blocks]
  float* scaled_sums;  // [rows][blocks]
  int32_t* half_sums;  // [rows][blocks][2]
  uint32_t columns;
  uint32_t blocks;
};

// Where a matrix of rows16 groups lies in a record, in bytes.
struct MatrixPlace {
  uint64_t offset;  // of group 0 from the record's start
  uint64_t stride;  // from a group to the next
  uint64_t bytes;   // of a group
};

// What all experts of a model have in common. MakeExpertPlan (kernels/cuda/expert_plan.h) fills it.
struct ExpertPlan {
  uint32_t hidden;
  uint32_t ffn;
  Activation activation;
  WeightType gate_up;  // of both
  WeightType down;
  MatrixPlace gate;
  MatrixPlace up;
  MatrixPlace down_place;
  uint64_t gate_bias;  // bytes from the record's start, or kNoBias
  uint64_t up_bias;
  uint64_t down_bias;
};

// One expert and the picks that it serves: neighbours in the list of picks, which is also the
// order of rows in `h` and `y`. Without picks it stands for nothing, so that a launch of a fixed
// size can be replayed.
struct ExpertRun {
  const std::byte* record;  // 64-byte aligned
  uint32_t first_pick;
  uint32_t picks;
};

// How gate, up and down read their weights; the bits are the same. Directly, each thread loads what
// it needs next: about 15 KB on the way an SM, which fills memory of up to 2 TB/s. Staged, weights
// go through shared memory by cp.async, 26 to 28 KB on the way a block of threads. A call names how
// many blocks read each of its experts so:
//   kBlockAUnit      one for each 32 rows: VRAM that is faster than that
//   kZeroCopyBlocks  records in mapped host memory, whose matrices cross the link exactly once for
//                    each 8 picks. A link of 50 GB/s and 1.2 us has 60 KB on the way, which 3
//                    blocks cover; 8 so that it is not arithmetic that they wait for, and the other
//                    SMs stay with the kernels of other streams.
inline constexpr uint32_t kDirectReads = 0;
inline constexpr uint32_t kBlockAUnit = ~uint32_t{0};
inline constexpr uint32_t kZeroCopyBlocks = 8;

// For records in the VRAM of a GPU of this compute capability (86 for 8.6): staged on Hopper's HBM
// (90), direct elsewhere.
uint32_t StagedBlocksFor(uint32_t compute);

// Rows made ready: the input of gate and up.
struct PrepareCall {
  const float* values;  // [rows][out.columns]
  uint32_t rows;
  PreparedRows out;
};
int LaunchPrepare(const PrepareCall& call, StreamHandle stream);

// h[pick] = act(gate(x[row]), up(x[row])), prepared for down. Bytes moved: gate and up once for
// each 4 picks of a run, 8 where they are staged, 64 (Q2_K and floats 48) by a prefill kernel.
struct GateUpCall {
  ExpertPlan plan;
  const ExpertRun* runs;  // [run_count]
  uint32_t run_count;     // 1..65535
  uint32_t picks_max;     // no run has more
  const uint32_t* row_of_pick;
  PreparedRows x;
  PreparedRows h;
  uint32_t staged_blocks = kDirectReads;
};
int LaunchGateUp(const GateUpCall& call, StreamHandle stream);

// y[pick] = down(h[pick]), without the router weight. Bytes moved: down as gate and up.
struct DownCall {
  ExpertPlan plan;
  const ExpertRun* runs;
  uint32_t run_count;
  uint32_t picks_max;
  PreparedRows h;
  float* y;  // [picks][hidden]; a NaN is 0x7FC00000
  uint32_t staged_blocks = kDirectReads;
};
int LaunchDown(const DownCall& call, StreamHandle stream);

// out[row] = the sum of weight * y[pick] over the row's picks, in the request's order, by fma from
// +0.
struct CombineCall {
  const float* y;
  uint32_t hidden;
  uint32_t rows;                  // 1..65535
  const uint32_t* first_of_row;   // [rows + 1] into the next two
  const uint32_t* pick_in_order;  // the row's picks, as the request has them
  const float* weight_in_order;
  float* out;  // [rows][hidden]
};
int LaunchCombine(const CombineCall& call, StreamHandle stream);

// The launches above take this type for gate and up, or for down.
bool HasExpertKernels(WeightType type);

// LaunchGateUp and LaunchDown take the prefill kernel, on tensor cores if it is an integer type,
// unless the records come over a link.
bool TakesPrefillKernel(WeightType type, uint32_t picks_max);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_EXPERT_KERNELS_H_
