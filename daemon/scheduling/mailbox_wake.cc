#include "daemon/scheduling/mailbox_wake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

namespace moetier {
namespace {

timespec TimeUntil(TimePoint deadline) {
  const auto left = std::max(deadline - std::chrono::steady_clock::now(), TimePoint::duration(0));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count();
  return time;
}

}  // namespace

Status MailboxWake::Open() {
  if (event_) return Ok{};
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return ErrnoError(errno, "make the executor's wake-up: eventfd");
  event_ = UniqueFd(fd);
  return Ok{};
}

void MailboxWake::Ring() const { (void)eventfd_write(event_.get(), 1); }

void MailboxWake::WaitWith(int descriptor, std::optional<TimePoint> deadline) const {
  std::array<pollfd, 2> wait = {{{.fd = event_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = descriptor, .events = POLLIN, .revents = 0}}};
  timespec left{};
  if (deadline) left = TimeUntil(*deadline);
  const int ready = ppoll(wait.data(), wait.size(), deadline ? &left : nullptr, nullptr);
  eventfd_t rung = 0;
  if (ready > 0 && wait[0].revents != 0) (void)eventfd_read(event_.get(), &rung);
}

}  // namespace moetier
