#ifndef MOETIER_KERNELS_CUDA_SIMT_GRID_H_
#define MOETIER_KERNELS_CUDA_SIMT_GRID_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/simt/cuda_thread.h"

namespace moetier::simt {

struct GridOptions {
  // 0: one block after another, threads in the order of their index. Else a repeatable draw of the
  // order of blocks, how many of them take turns, which thread goes on at each meeting, and where
  // atomics and fences let others run.
  uint64_t seed = 0;
  size_t stack_bytes = size_t{128} << 10;  // of each CUDA thread
  // A kernel that spins for ever ends with an error after as many switches.
  uint64_t switch_limit = uint64_t{1} << 27;
};

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
};

// One block while it runs.
struct CudaBlock {
  dim3 index;
  const LaunchShape* shape = nullptr;
  std::byte* shared = nullptr;  // on the heap, so that AddressSanitizer knows its end
  std::byte* stacks = nullptr;
  std::vector<CudaThread> threads;
  std::vector<Warp> warps;
  unsigned alive = 0;          // threads that have not left
  unsigned at_barrier = 0;     // threads that wait there
  unsigned generation = 0;     // of the barrier
  char barrier_fence[2] = {};  // for ThreadSanitizer: addresses that stand for the barrier's order
};

// Runs one launch: every CUDA thread is a fiber, switched only where CUDA threads meet (block
// barrier, warp intrinsics) or may let others run (atomics, fences, __nanosleep). Checked on the
// way: a barrier that threads reach at different places, a lane outside its own mask, a mask that
// names a lane that has left, lanes that meet in different operations, a shuffle from a lane that
// takes no part, deadlock. Shared memory starts as NaN for each block.
// Threads: one at a time in an OS thread; the caller's runs it all.
class Grid {
 public:
  using Body = void (*)(const void* argument);

  Grid(const GridOptions& options, const LaunchShape& shape, Body body, const void* argument);
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  // Once. The error says what, block and thread, file and line; memory that the kernel wrote until
  // then stays written.
  Status Run();

  // For the intrinsics, on a fiber of this grid.
  void SyncThreads(const Place& place);
  void Meet(const Meeting& meeting, const Place& place);
  void Yield(const Place& place);
  void YieldBySeed(const Place& place);
  [[noreturn]] void Fail(std::string&& what, const CudaThread& thread);

 private:
  static void FiberMain();
  void StartBlock(CudaBlock& block);
  void StartThread(CudaBlock& block, unsigned number);
  void EndBlock(CudaBlock& block);
  void MapStacks(CudaBlock& block, int flags) const;
  void LeaveBlock(CudaThread& thread);
  void LandBySeed(CudaThread& thread);
  void Suspend(CudaThread& thread);
  void MakeReady(CudaThread& thread);
  CudaThread& PickReady();
  void ReleaseBarrier(CudaBlock& block);
  bool CompleteMeeting(Warp& warp, uint32_t mask);
  [[nodiscard]] Status Outcome() const;

  GridOptions options_;
  LaunchShape shape_;
  Body body_;
  const void* argument_;
  std::minstd_rand random_;
  unsigned block_threads_;
  std::vector<unsigned> order_;  // of the blocks that have not started, next one last
  std::vector<std::unique_ptr<CudaBlock>> resident_;
  std::deque<CudaThread*> ready_;
  Context scheduler_;
  std::string error_;
};

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_GRID_H_
