#ifndef MOETIER_TIERS_DEVICE_EMULATED_DEVICE_H_
#define MOETIER_TIERS_DEVICE_EMULATED_DEVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "kernels/expert_ffn.h"
#include "tiers/arena.h"
#include "tiers/device/device.h"

namespace moetier {

// A device without hardware: its memory is the host's, one thread copies at a set rate, another
// computes with the CPU's kernels, so the bits are the CPU's. What it cannot do faster than a link
// of the set rate and latency takes as long as over that link.
// Threads: `device-copy` and `device-run`, from Start to Stop.
class EmulatedDevice final : public Device {
 public:
  struct Options {
    std::string name = "emulated0";
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

  void Start(DeviceListener& listener) override EXCLUDES(mu_);
  void Stop() override EXCLUDES(mu_);
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override EXCLUDES(mu_);
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                std::string_view what) override EXCLUDES(mu_);
  void Copy(CopyId id, const DeviceCopy& copy) override EXCLUDES(mu_);
  void CancelCopy(CopyId id) override EXCLUDES(mu_);
  void Run(RunId id, std::vector<DeviceTask> tasks) override EXCLUDES(mu_);

  // For tests, in place of hardware that fails. The next `count` copies end with kFailed.
  void FailCopies(uint32_t count) EXCLUDES(mu_);
  void Lose(std::string_view why) EXCLUDES(mu_);

 private:
  class HostArena;
  struct QueuedCopy {
    CopyId id{};
    DeviceCopy copy;
    bool cancelled = false;
  };
  struct QueuedRun {
    RunId id{};
    std::vector<DeviceTask> tasks;
    bool cancelled = false;
  };

  void CopyLoop();
  void RunLoop();
  [[nodiscard]] std::optional<QueuedCopy> NextCopy() EXCLUDES(mu_);
  [[nodiscard]] std::optional<QueuedRun> NextRun() EXCLUDES(mu_);
  [[nodiscard]] DeviceOutcome Perform(const QueuedCopy& queued) EXCLUDES(mu_);
  [[nodiscard]] DeviceOutcome Compute(const QueuedRun& queued) EXCLUDES(mu_);
  void RunTask(const DeviceTask& task);
  // Counts a piece of work; false when the device is lost, by this very piece perhaps.
  [[nodiscard]] bool BeginWork() EXCLUDES(mu_);
  [[nodiscard]] bool FailsNow() EXCLUDES(mu_);
  // Of the budget. kExhausted, kUnavailable as Allocate gives them.
  Status TakeBudget(Bytes bytes, std::string_view what) EXCLUDES(mu_);
  void GiveBack(Bytes bytes) EXCLUDES(mu_);
  [[nodiscard]] std::chrono::nanoseconds LinkTime(size_t bytes) const;

  const Options options_;
  const Clock& clock_;
  const kernels::ExpertKernels& kernels_;
  const DeviceDescription description_;
  DeviceListener* listener_ = nullptr;  // set by Start, before the threads

  mutable Mutex mu_;
  ConditionVariable changed_;
  Bytes taken_ GUARDED_BY(mu_);  // by arenas
  std::deque<QueuedCopy> copies_ GUARDED_BY(mu_);
  std::deque<QueuedRun> runs_ GUARDED_BY(mu_);
  uint32_t failing_copies_ GUARDED_BY(mu_) = 0;
  uint64_t work_begun_ GUARDED_BY(mu_) = 0;
  bool lost_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;

  kernels::ActivationRows h_;  // the run thread's own
  std::jthread copy_thread_;
  std::jthread run_thread_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_EMULATED_DEVICE_H_
