#include <chrono>
#include <utility>

#include "kernels/cuda/emulated_gpu.h"
#include "tests/unit/cuda/tested_gpu.h"

// The emulator as the tested GPU. It has no graphs, and its time is the host's.

namespace moetier::kernels::cuda {
namespace {

class EmulatedWorkClock final : public WorkClock {
 public:
  EmulatedWorkClock(Gpu& gpu, StreamHandle stream, EventHandle end)
      : gpu_(gpu), stream_(stream), end_(end) {}

  Result<double> Seconds(const DeviceWork& work) override {
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(gpu_.CheckLaunch(work()));
    RETURN_IF_ERROR(gpu_.Record(end_, stream_));
    RETURN_IF_ERROR(gpu_.Wait(end_, HostWait::kSpin));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  Result<DeviceWork> Capture(const DeviceWork& work) override { return work; }

 private:
  Gpu& gpu_;
  const StreamHandle stream_;
  const EventHandle end_;
};

}  // namespace

Result<std::unique_ptr<Gpu>> OpenTestedGpu(uint64_t seed) {
  EmulatedGpu::Options options;
  options.info.name = "an emulator, whose figures say nothing of any GPU";
  options.info.memory = 1_GiB;
  options.grid.seed = seed;
  return std::unique_ptr<Gpu>(std::make_unique<EmulatedGpu>(std::move(options)));
}

Result<std::unique_ptr<WorkClock>> NewWorkClock(Gpu& gpu, StreamHandle stream) {
  ASSIGN_OR_RETURN(const EventHandle end, gpu.NewEvent());
  return std::unique_ptr<WorkClock>(std::make_unique<EmulatedWorkClock>(gpu, stream, end));
}

}  // namespace moetier::kernels::cuda
