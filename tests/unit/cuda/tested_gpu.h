#ifndef MOETIER_TESTS_UNIT_CUDA_TESTED_GPU_H_
#define MOETIER_TESTS_UNIT_CUDA_TESTED_GPU_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "kernels/cuda/gpu.h"

namespace moetier::kernels::cuda {

// Puts kernels and copies into a stream; a launch's code that is not 0 ends it.
using DeviceWork = std::function<int()>;

// Times the work of one stream and keeps it as graphs: what the daemon does without, and so Gpu
// does not offer. Threads: one. Lifetime: the GPU and its stream outlive it, and it the graphs.
class WorkClock {
 public:
  virtual ~WorkClock() = default;
  // Does the work and waits; the seconds that the device took for it.
  virtual Result<double> Seconds(const DeviceWork& work) = 0;
  // The work as a graph, which the result replays.
  virtual Result<DeviceWork> Capture(const DeviceWork& work) = 0;
};

// A program links one implementation of these two: emulated_tested_gpu.cc here, or
// cudart_tested_gpu.cc of tests/gpu.

// The first GPU of this host; kUnavailable, and why, where none answers. `seed` is the order of the
// emulator's threads.
Result<std::unique_ptr<Gpu>> OpenTestedGpu(uint64_t seed);
Result<std::unique_ptr<WorkClock>> NewWorkClock(Gpu& gpu, StreamHandle stream);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_UNIT_CUDA_TESTED_GPU_H_
