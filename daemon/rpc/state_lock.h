#ifndef MOETIER_DAEMON_RPC_STATE_LOCK_H_
#define MOETIER_DAEMON_RPC_STATE_LOCK_H_

#include <string>
#include <utility>

#include "base/result.h"
#include "daemon/transport/pid_lock.h"

namespace moetier {

// The right to be the daemon of one state directory: a PidLock on DIRECTORY/lock. Taken first of
// all, so that a second daemon with the same configuration ends before it touches anything.
class StateLock {
 public:
  // Makes the directory (0700) if it is missing. kFailedPrecondition, kAlreadyRunning with the
  // owner's pid when another process holds it.
  static Result<StateLock> Take(const std::string& directory);

 private:
  explicit StateLock(PidLock lock) : lock_(std::move(lock)) {}
  PidLock lock_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_STATE_LOCK_H_
