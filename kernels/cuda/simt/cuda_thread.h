#ifndef MOETIER_KERNELS_CUDA_SIMT_CUDA_THREAD_H_
#define MOETIER_KERNELS_CUDA_SIMT_CUDA_THREAD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/simt/async_copies.h"
#include "kernels/cuda/simt/context.h"
#include "kernels/cuda/simt/host_types.h"

namespace moetier::simt {

struct CudaBlock;
struct Warp;
class Grid;

inline constexpr unsigned kWarpLanes = 32;

// Where in the kernel's source a thread waits.
struct Place {
  const char* file = "";
  unsigned line = 0;
};

// kReady -> kAtBarrier -> kReady by the last thread to arrive there; kAtWarp likewise by the last
// lane of its mask; kDone when the kernel returns.
enum class ThreadState : uint8_t { kReady, kAtBarrier, kAtWarp, kDone };

// What a warp does when its lanes have met: run once, for `lanes`, by the last of them.
using WarpOperation = void (*)(Warp& warp, uint32_t lanes);

// What a lane brings to a meeting of its warp.
struct Meeting {
  uint32_t mask = 0;
  WarpOperation operation = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  int argument = 0;
};

struct CudaThread {
  Context context;
  Grid* grid = nullptr;
  CudaBlock* block = nullptr;
  Warp* warp = nullptr;
  dim3 index;
  unsigned lane = 0;
  ThreadState state = ThreadState::kDone;
  bool fenced = false;  // its atomics order what it wrote before
  Place place;
  Meeting meeting;
  AsyncCopies copies;
};

struct Warp {
  std::array<CudaThread*, kWarpLanes> lanes{};
  uint32_t alive = 0;    // lanes that have not left
  uint32_t arrived = 0;  // lanes that wait in a meeting
};

// The CUDA thread that runs, nullptr outside of kernels.
extern constinit thread_local CudaThread* current_thread;

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_CUDA_THREAD_H_
