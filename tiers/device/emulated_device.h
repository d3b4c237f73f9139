#ifndef MOETIER_TIERS_DEVICE_EMULATED_DEVICE_H_
#define MOETIER_TIERS_DEVICE_EMULATED_DEVICE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "kernels/expert_ffn.h"
#include "tiers/arena.h"
#include "tiers/device/device.h"
#include "tiers/device/device_budget.h"
#include "tiers/device/device_queues.h"

namespace moetier {

// A device without hardware: its memory is the host's, one thread copies at a set rate, another
// computes with the CPU's kernels, so the bits are the CPU's. What it cannot do faster than a link
// of the set rate and latency takes as long as over that link.
// Threads: those of DeviceQueues.
class EmulatedDevice final : public Device, private DeviceWork {
 public:
  struct Options {
    std::string name = "emulated0";
    uint32_t number = 0;  // among the daemon's devices
    Bytes budget;
    double copy_rate = 16e9;  // bytes a second, either way, and for records read by zero-copy
    std::chrono::nanoseconds copy_latency = std::chrono::microseconds(20);
    uint64_t lost_after = 0;          // copies and runs until it is lost, for tests; 0: never
    Bytes granule{kRecordAlignment};  // in which its budget is counted
    // Memory is taken as for RAM arenas: compared with the host's limits, then populated.
    ArenaOptions memory{};
    // Waits until that time of the clock; a test moves its clock instead.
    std::function<void(TimePoint)> wait_until = [](TimePoint at) {
      std::this_thread::sleep_until(at);
    };
  };

  // Clock and kernels outlive it.
  EmulatedDevice(Options options, const Clock& clock, const kernels::ExpertKernels& kernels);
  ~EmulatedDevice() override;

  void Start(DeviceListener& listener) override { queues_.Start(listener); }
  void Stop() override { queues_.Stop(); }
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override { return budget_.free(); }
  Status Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) override;
  Status ShowHost(std::span<std::byte> memory) override;
  void HideHost(std::span<std::byte> memory) override;
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                std::string_view what) override;
  void Copy(CopyId id, const DeviceCopy& copy) override { queues_.Copy(id, copy); }
  void CancelCopy(CopyId id) override { queues_.CancelCopy(id); }
  void Run(RunId id, std::vector<DeviceTask> tasks) override { queues_.Run(id, std::move(tasks)); }

  // For tests, in place of hardware that fails. The next `count` copies end with kFailed.
  void FailCopies(uint32_t count) EXCLUDES(mu_);
  void Lose(std::string_view why) { queues_.Lose(why); }

 private:
  class HostArena;
  Status BeginCopy(const DeviceCopy& copy, uint32_t place) override EXCLUDES(mu_);
  Result<DeviceOutcome> EndCopy(uint32_t place) override EXCLUDES(mu_);
  Status Compute(RecordPlace place, const std::vector<DeviceTask>& tasks) override EXCLUDES(mu_);
  void RunTask(const DeviceTask& task, kernels::ActivationRows& h_rows);
  // Counts a piece of work; an error when the device is lost by it.
  Status BeginWork() EXCLUDES(mu_);
  [[nodiscard]] bool FailsNow() EXCLUDES(mu_);
  [[nodiscard]] std::chrono::nanoseconds LinkTime(size_t bytes) const;

  const Options options_;
  const Clock& clock_;
  const kernels::ExpertKernels& kernels_;
  const DeviceDescription description_;

  mutable Mutex mu_;
  uint32_t failing_copies_ GUARDED_BY(mu_) = 0;
  uint64_t work_begun_ GUARDED_BY(mu_) = 0;

  DeviceCopy copy_;                                       // the copy thread's: under way
  std::array<kernels::ActivationRows, kRecordPlaces> h_;  // each the thread's that runs over it
  DeviceBudget budget_;
  DeviceQueues queues_;  // last: its threads use the rest
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_EMULATED_DEVICE_H_
