#ifndef MOETIER_DAEMON_CTL_INTERRUPT_H_
#define MOETIER_DAEMON_CTL_INTERRUPT_H_

#include <csignal>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// Turns SIGINT and SIGTERM into something a long step asks for, so that it can stop in order.
// While this lives the two signals are blocked in the creating thread and the threads it starts.
class Interrupt {
 public:
  static Result<Interrupt> Create();
  // Drops a signal that came too late to stop anything.
  ~Interrupt();
  Interrupt(Interrupt&& other) noexcept;
  Interrupt& operator=(Interrupt&&) = delete;

  // Never blocks. True from the first signal on.
  bool requested();

 private:
  Interrupt(UniqueFd fd, const sigset_t& previous);
  UniqueFd fd_;
  sigset_t previous_;
  bool requested_ = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_INTERRUPT_H_
