#ifndef MOETIER_TIERS_DEVICE_DEVICE_QUEUES_H_
#define MOETIER_TIERS_DEVICE_DEVICE_QUEUES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "tiers/device/device.h"

namespace moetier {

// What a device's threads do. Copies and the two kinds of runs come from threads of their own, one
// piece of each at a time.
// An Error loses the device: the piece ends with kFailed, and nothing is asked any more.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;
  // Copies begin in their order, at most Options::copies_at_once before the first has ended, and
  // end in it. `place` is below that number, no other's until EndCopy.
  virtual Status BeginCopy(const DeviceCopy& copy, uint32_t place) = 0;
  // Waits for it. kDone or kFailed: this copy alone failed.
  virtual Result<DeviceOutcome> EndCopy(uint32_t place) = 0;
  // While there is nothing to copy, now and then, on the thread of copies: whether the device is
  // still what it was.
  virtual Status Look() { return Ok{}; }
  // Computes, and waits for it. All records lie where `place` says.
  virtual Status Compute(RecordPlace place, const std::vector<DeviceTask>& tasks) = 0;
};

// The order in which a device works: three queues, each with a thread, and one completion for each
// piece of work, whatever happens.
// Threads:  `deviceN-copy`, `deviceN-run` (records in slots) and `deviceN-link` (records in RAM),
//           from Start to Stop, for the device of number N. Every other method from any thread.
// Lifetime: clock and work outlive it; the destructor stops.
class DeviceQueues {
 public:
  struct Options {
    std::string device;           // its name in messages
    uint32_t number = 0;          // among the daemon's devices
    uint32_t copies_at_once = 1;  // what has begun cannot be cancelled any more
  };
  DeviceQueues(Options options, const Clock& clock, DeviceWork& work);
  ~DeviceQueues();
  DeviceQueues(const DeviceQueues&) = delete;
  DeviceQueues& operator=(const DeviceQueues&) = delete;

  void Start(DeviceListener& listener);
  void Stop() EXCLUDES(mu_);

  void Copy(CopyId id, const DeviceCopy& copy) EXCLUDES(mu_);
  void CancelCopy(CopyId id) EXCLUDES(mu_);
  void Run(RunId id, std::vector<DeviceTask> tasks) EXCLUDES(mu_);

  // The device is gone: what is queued or comes later ends with kFailed. Tells the listener the
  // first time. Not under a lock that the listener takes.
  void Lose(std::string_view why) EXCLUDES(mu_);
  [[nodiscard]] bool lost() const EXCLUDES(mu_);

 private:
  struct QueuedCopy {
    CopyId id{};
    DeviceCopy copy;
    bool cancelled = false;
  };
  struct BegunCopy {
    CopyId id{};
    std::optional<DeviceOutcome> ended;  // without work
    uint32_t place = 0;
  };
  struct QueuedRun {
    RunId id{};
    std::vector<DeviceTask> tasks;
  };
  enum class Go : uint8_t { kWork, kCancelled, kFailed };

  void CopyLoop();
  void RunLoop(RecordPlace place);
  static constexpr std::chrono::milliseconds kLooksEvery{1000};
  // Until there is a copy, or the end; looks at the device meanwhile.
  void AwaitCopy() EXCLUDES(mu_);
  [[nodiscard]] bool AwaitCopyFor(std::chrono::milliseconds time) EXCLUDES(mu_);
  // Empty when there is none: at the end, and when `wait` says not to wait for one.
  enum class Wait : uint8_t { kNo, kYes };
  [[nodiscard]] std::optional<QueuedCopy> NextCopy(Wait wait) EXCLUDES(mu_);
  [[nodiscard]] std::optional<QueuedRun> NextRun(RecordPlace place) EXCLUDES(mu_);
  [[nodiscard]] BegunCopy Begin(const QueuedCopy& queued, uint32_t place) EXCLUDES(mu_);
  [[nodiscard]] DeviceOutcome End(const BegunCopy& begun) EXCLUDES(mu_);
  [[nodiscard]] DeviceOutcome Perform(RecordPlace place, const QueuedRun& queued) EXCLUDES(mu_);
  [[nodiscard]] Go MayWork() const EXCLUDES(mu_);

  const Options options_;
  const Clock& clock_;
  DeviceWork& work_;
  DeviceListener* listener_ = nullptr;  // set by Start, before the threads

  mutable Mutex mu_;
  ConditionVariable changed_;
  std::deque<QueuedCopy> copies_ GUARDED_BY(mu_);
  std::deque<QueuedRun> runs_[kRecordPlaces] GUARDED_BY(mu_);
  bool lost_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;

  std::vector<std::jthread> threads_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_DEVICE_QUEUES_H_
