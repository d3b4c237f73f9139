#ifndef MOETIER_DAEMON_RPC_ADMIN_WORKER_H_
#define MOETIER_DAEMON_RPC_ADMIN_WORKER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"

namespace moetier {

// One thread for one kind of operator's calls, which may take as long as the disk does. It runs
// them one after another, so that no gRPC thread blocks. Threads: Run and BeginStop from any, Stop
// from one. Lifetime: the destructor stops.
class AdminWorker {
 public:
  // Called once: with Ok to do the work, with kDraining when a stop came first.
  using Task = std::function<void(const Status& go)>;

  // `name` is the thread's, and what a refusal says.
  explicit AdminWorker(std::string name);
  ~AdminWorker() { Stop(); }

  // kExhausted, kQuota when kMaxQueued tasks wait; kUnavailable, kDraining after BeginStop.
  Status Run(Task task);
  // Refuses what comes and what waits; the task under way goes on.
  void BeginStop();
  // Joins.
  void Stop();

  static constexpr size_t kMaxQueued = 16;  // operators are people: more is a runaway script

 private:
  void Loop();

  const std::string name_;
  Mutex mu_;
  ConditionVariable changed_;
  std::deque<Task> tasks_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

// A worker a kind of work, so that none waits for another kind: pins cannot fill the queue that an
// unload needs, and a verify of hours holds up nothing else.
struct AdminDesk {
  AdminWorker load{"rpc-load"};
  AdminWorker unload{"rpc-unload"};
  AdminWorker verify{"rpc-verify"};
  AdminWorker pin{"rpc-pin"};
  AdminWorker reload{"rpc-reload"};
  AdminWorker budget{"rpc-budget"};

  void BeginStop() {
    for (AdminWorker* worker : {&load, &unload, &verify, &pin, &reload, &budget}) {
      worker->BeginStop();
    }
  }
  void Stop() {
    for (AdminWorker* worker : {&load, &unload, &verify, &pin, &reload, &budget}) {
      worker->Stop();
    }
  }
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_ADMIN_WORKER_H_
