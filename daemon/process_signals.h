#ifndef MOETIER_DAEMON_PROCESS_SIGNALS_H_
#define MOETIER_DAEMON_PROCESS_SIGNALS_H_

#include <signal.h>

#include <chrono>
#include <optional>

namespace moetier {

enum class ProcessSignal : uint8_t { kNone, kStop, kReload };

// The signals that main waits for: SIGTERM and SIGINT stop, SIGHUP reloads. Constructed before any
// thread, so that every thread inherits the blocked mask and only Wait sees them.
class ProcessSignals {
 public:
  ProcessSignals();
  // Waits for one, at most `limit`; kNone when the time is up.
  ProcessSignal Wait(std::optional<std::chrono::microseconds> limit);
  // Whether a signal to stop has come, for a long step that can be ended. Never blocks; leaves the
  // signal to reload for Wait.
  bool StopRequested();

 private:
  sigset_t set_;
  bool stop_requested_ = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_PROCESS_SIGNALS_H_
