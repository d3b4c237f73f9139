#ifndef MOETIER_DAEMON_SCHEDULING_MAILBOX_WAKE_H_
#define MOETIER_DAEMON_SCHEDULING_MAILBOX_WAKE_H_

#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// Wakes a thread that waits for a descriptor of somebody else's too.
// Threads: Ring from any, once opened; the rest by the waiting thread.
class MailboxWake {
 public:
  // More than once does no harm.
  Status Open();
  void Ring() const;
  // Returns when rung since the last return, when `descriptor` is readable, or at the deadline.
  // May return early.
  void WaitWith(int descriptor, std::optional<TimePoint> deadline) const;

 private:
  UniqueFd event_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_MAILBOX_WAKE_H_
