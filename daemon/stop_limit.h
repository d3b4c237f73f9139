#ifndef MOETIER_DAEMON_STOP_LIMIT_H_
#define MOETIER_DAEMON_STOP_LIMIT_H_

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace moetier {

// Calls `late` once when it lives longer than `limit`: a stop waits for connections, and a client
// that reads no more can keep one open for ever.
// Threads: made and destroyed by one; `late` runs on a thread of its own (`stop-limit`).
class StopLimit {
 public:
  StopLimit(std::chrono::milliseconds limit, std::function<void()> late);
  ~StopLimit();
  StopLimit(const StopLimit&) = delete;
  StopLimit& operator=(const StopLimit&) = delete;

 private:
  Mutex mu_;
  ConditionVariable changed_;
  bool over_ GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_STOP_LIMIT_H_
