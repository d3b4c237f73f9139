#ifndef MOETIER_DAEMON_RPC_ADMIN_WORKER_H_
#define MOETIER_DAEMON_RPC_ADMIN_WORKER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"

namespace moetier {

// One thread ("rpc-admin") for the calls that wait for disks: load, unload, verify, pin, reload. It
// runs them one after another, so that no two change the models at once and no gRPC thread blocks.
// Threads: Run from any. Lifetime: Stop and the destructor run what is queued, then join.
class AdminWorker {
 public:
  AdminWorker();
  ~AdminWorker() { Stop(); }

  // kExhausted, kQuota when kMaxQueued tasks wait; kUnavailable, kDraining after Stop.
  Status Run(std::function<void()> task);
  void Stop();

  static constexpr size_t kMaxQueued = 16;  // operators are people: more is a runaway script

 private:
  void Loop();

  Mutex mu_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_ADMIN_WORKER_H_
