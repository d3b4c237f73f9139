#ifndef MOETIER_DAEMON_RPC_STATE_LOCK_H_
#define MOETIER_DAEMON_RPC_STATE_LOCK_H_

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// The right to be the daemon of one state directory: an flock on DIRECTORY/lock, which holds the
// owner's pid. Taken before any socket is bound, since a second gRPC server would silently take the
// path over. The kernel lifts it when the process ends, however.
class StateLock {
 public:
  // Makes the directory (0700) if it is missing. kFailedPrecondition, kAlreadyRunning with the
  // owner's pid when another process holds it.
  static Result<StateLock> Take(const std::string& directory);

 private:
  explicit StateLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_STATE_LOCK_H_
