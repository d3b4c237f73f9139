#ifndef MOETIER_TIERS_DEVICE_CUDA_DEVICE_H_
#define MOETIER_TIERS_DEVICE_CUDA_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/suspend_watch.h"
#include "kernels/cuda/gpu.h"
#include "tiers/device/copy_buffers.h"
#include "tiers/device/device.h"
#include "tiers/device/device_budget.h"
#include "tiers/device/device_queues.h"
#include "tiers/device/gpu_arena.h"
#include "tiers/device/gpu_lane.h"

namespace moetier {

// A GPU by the kernels of kernels/cuda, whose bits are the CPU's. Slots lie in its memory; what
// reads RAM over the link has a stream of its own. Any error of a copy or a run loses the device:
// what it still says cannot be trusted. So does one that is not done in kLongestWait, and a host
// that was suspended: the driver may have kept nothing of the GPU's memory, without a word. Failed
// work is reported when the GPU does no more of it, or was given up: all that it writes of the
// host's is memory of its own.
// Memory:  its budget for slots, and beside it what each lane needs (GpuLane) and, of the host's, a
//          buffer for each copy (CopyBuffers).
// Threads: those of DeviceQueues.
class CudaDevice final : public Device, private DeviceWork {
 public:
  struct Options {
    std::string name = "gpu0";
    uint32_t number = 0;  // among the daemon's devices
    Bytes budget;         // for slots
    SuspendWatch::Read times = ReadHostTimes;
  };

  // Has a kernel read the host's memory and copies back what it read, and bytes there and back:
  // kUnavailable when they are not what they were. The clock outlives it.
  static Result<std::unique_ptr<CudaDevice>> Create(Options options,
                                                    std::unique_ptr<kernels::cuda::Gpu> gpu,
                                                    const Clock& clock);
  ~CudaDevice() override;

  void Start(DeviceListener& listener) override { queues_.Start(listener); }
  void Stop() override { queues_.Stop(); }
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override { return budget_.free(); }
  Status Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) override;
  Status ShowHost(std::span<std::byte> memory) override;
  void HideHost(std::span<std::byte> memory) override { gpu_->HideHost(memory); }
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                std::string_view what) override;
  void Copy(CopyId id, const DeviceCopy& copy) override { queues_.Copy(id, copy); }
  void CancelCopy(CopyId id) override { queues_.CancelCopy(id); }
  void Run(RunId id, std::vector<DeviceTask> tasks) override { queues_.Run(id, std::move(tasks)); }

 private:
  static constexpr uint32_t kCopiesAtOnce = 2;  // the next is under way while one is reported

  CudaDevice(Options options, std::unique_ptr<kernels::cuda::Gpu> gpu, const Clock& clock);
  Status SelfTest();
  Status Finish();  // of what stands in the stream of copies
  // Since its start. What ended after a suspension is no good.
  [[nodiscard]] Status CheckAwake() const;
  Status Look() override { return CheckAwake(); }
  [[nodiscard]] Error NotAsItWas(std::string_view what) const;
  Status BeginCopy(const DeviceCopy& copy, uint32_t place) override;
  Status Enqueue(const DeviceCopy& copy, uint32_t place);
  void EndFailedCopy(const Error& why);
  Result<DeviceOutcome> EndCopy(uint32_t place) override;
  Status Compute(RecordPlace place, const std::vector<DeviceTask>& tasks) override;

  const Options options_;
  const std::unique_ptr<kernels::cuda::Gpu> gpu_;
  const DeviceDescription description_;
  const SuspendWatch suspended_;
  std::array<std::unique_ptr<GpuLane>, kRecordPlaces> lanes_;
  kernels::cuda::StreamHandle copies_ = nullptr;
  std::array<kernels::cuda::EventHandle, kCopiesAtOnce> copied_{};
  // Of copies out, where they land and where they are to be; the thread of copies' own.
  struct Landing {
    const std::byte* from = nullptr;
    std::span<std::byte> to;  // empty for a copy in
  };
  std::array<Landing, kCopiesAtOnce> landings_{};
  CopyBuffers buffers_;

  DeviceBudget budget_;
  DeviceQueues queues_;  // last: its threads use the rest
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_CUDA_DEVICE_H_
