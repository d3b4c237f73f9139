#ifndef MOETIER_TIERS_STORE_STORE_LOCK_H_
#define MOETIER_TIERS_STORE_STORE_LOCK_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// The right to write one store directory: an exclusive flock on DIR/lock, which holds the pid. The
// kernel lets go of it when the process ends, however; the file stays, since removing it could
// leave two processes each with a lock of its own. Readers need none: data is immutable.
class StoreLock {
 public:
  // Never waits. kFailedPrecondition, kStoreLocked names the holder's pid.
  static Result<StoreLock> Take(const std::string& directory);

 private:
  explicit StoreLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

inline constexpr std::string_view kLockFileName = "lock";

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_STORE_LOCK_H_
