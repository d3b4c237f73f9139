#ifndef MOETIER_DAEMON_TRANSPORT_PID_LOCK_H_
#define MOETIER_DAEMON_TRANSPORT_PID_LOCK_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// An flock on a file that holds its owner's pid. The file stays, so that nobody locks one that is
// being removed; the kernel lifts the lock when the process ends, however.
class PidLock {
 public:
  // kFailedPrecondition, kAlreadyRunning when another process holds it: the message names the
  // owner's pid and ends with `advice`.
  static Result<PidLock> Take(const std::string& path, std::string_view advice);

 private:
  explicit PidLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_PID_LOCK_H_
