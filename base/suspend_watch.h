#ifndef MOETIER_BASE_SUSPEND_WATCH_H_
#define MOETIER_BASE_SUSPEND_WATCH_H_

#include <chrono>
#include <functional>

namespace moetier {

// Looks at CLOCK_BOOTTIME, which goes on while the host is suspended, between two at
// CLOCK_MONOTONIC, which does not: how long the host has slept lies between what they give.
struct HostTimes {
  std::chrono::nanoseconds awake_before{0};
  std::chrono::nanoseconds all{0};
  std::chrono::nanoseconds awake_after{0};
};
HostTimes ReadHostTimes();

// Whether the host was suspended since the watch was made, to RAM or to disk: drivers do not always
// keep then what devices had in their memory. Two reads of clocks, about 100 ns.
// Threads: any.
class SuspendWatch {
 public:
  using Read = std::function<HostTimes()>;
  explicit SuspendWatch(Read read = ReadHostTimes);

  // However late the host lets this thread go on, never without a suspension of kShortest.
  static constexpr std::chrono::milliseconds kShortest{10};
  [[nodiscard]] bool WasSuspended() const;

 private:
  const Read read_;
  const std::chrono::nanoseconds slept_at_most_;  // when it was made
};

}  // namespace moetier

#endif  // MOETIER_BASE_SUSPEND_WATCH_H_
