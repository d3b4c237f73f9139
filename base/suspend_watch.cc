#include "base/suspend_watch.h"

#include <time.h>

#include <utility>

namespace moetier {
namespace {

std::chrono::nanoseconds Read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::chrono::nanoseconds SleptAtMost(const HostTimes& times) {
  return times.all - times.awake_before;
}
std::chrono::nanoseconds SleptAtLeast(const HostTimes& times) {
  return times.all - times.awake_after;
}

}  // namespace

HostTimes ReadHostTimes() {
  HostTimes times;
  times.awake_before = Read(CLOCK_MONOTONIC);
  times.all = Read(CLOCK_BOOTTIME);
  times.awake_after = Read(CLOCK_MONOTONIC);
  return times;
}

SuspendWatch::SuspendWatch(Read read)
    : read_(std::move(read)), slept_at_most_(SleptAtMost(read_())) {}

bool SuspendWatch::WasSuspended() const {
  return SleptAtLeast(read_()) >= slept_at_most_ + kShortest;
}

}  // namespace moetier
