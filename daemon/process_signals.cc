#include "daemon/process_signals.h"

#include <pthread.h>

namespace moetier {

ProcessSignals::ProcessSignals() {
  sigemptyset(&set_);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, number);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a client that goes away is an error of its call, not our end
}

bool ProcessSignals::StopRequested() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&stops, number);
  const timespec at_once{};
  if (!stop_requested_) stop_requested_ = sigtimedwait(&stops, nullptr, &at_once) > 0;
  return stop_requested_;
}

ProcessSignal ProcessSignals::Wait(std::optional<std::chrono::microseconds> limit) {
  if (stop_requested_) return ProcessSignal::kStop;
  int number = 0;
  if (limit) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*limit);
    timespec time{};
    time.tv_sec = seconds.count();
    time.tv_nsec = std::chrono::nanoseconds(*limit - seconds).count();
    number = sigtimedwait(&set_, nullptr, &time);
  } else {
    number = sigwaitinfo(&set_, nullptr);
  }
  if (number == SIGTERM || number == SIGINT) return ProcessSignal::kStop;
  if (number == SIGHUP) return ProcessSignal::kReload;
  return ProcessSignal::kNone;
}

}  // namespace moetier
