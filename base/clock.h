#ifndef MOETIER_BASE_CLOCK_H_
#define MOETIER_BASE_CLOCK_H_

#include <chrono>

namespace moetier {

using TimePoint = std::chrono::steady_clock::time_point;

// The time source that a test replaces. Threads: any.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint Now() const = 0;
};

// The host's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override;
};

}  // namespace moetier

#endif  // MOETIER_BASE_CLOCK_H_
