#include "daemon/ctl/interrupt.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace moetier {

Result<Interrupt> Interrupt::Create() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigset_t previous;
  const int error = pthread_sigmask(SIG_BLOCK, &signals, &previous);
  if (error != 0) return ErrnoError(error, "block SIGINT and SIGTERM");
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return ErrnoError(errno, "signalfd");
  return Interrupt(std::move(fd), previous);
}

Interrupt::Interrupt(UniqueFd fd, const sigset_t& previous)
    : fd_(std::move(fd)), previous_(previous) {}

Interrupt::Interrupt(Interrupt&& other) noexcept
    : fd_(std::move(other.fd_)), previous_(other.previous_), requested_(other.requested_) {}

Interrupt::~Interrupt() {
  if (!fd_) return;  // only the last owner gives the signals back
  // A signal that came after the last question found the step done: it must not end the program
  // with another status than the step's.
  signalfd_siginfo late;
  while (::read(fd_.get(), &late, sizeof late) == sizeof late) continue;
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

bool Interrupt::requested() {
  signalfd_siginfo info;
  if (!requested_) requested_ = ::read(fd_.get(), &info, sizeof info) == sizeof info;
  return requested_;
}

}  // namespace moetier
