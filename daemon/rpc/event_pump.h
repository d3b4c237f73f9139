#ifndef MOETIER_DAEMON_RPC_EVENT_PUMP_H_
#define MOETIER_DAEMON_RPC_EVENT_PUMP_H_

#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace moetier {

// Has events of sessions that do nothing else at the moment translated and written on a thread of
// its own, "rpc-events", so that the thread that tells of them, the executor's, takes note only.
// Threads: Ask from any, Stop from one. Lifetime: the destructor stops.
class EventPump {
 public:
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual void WriteEvents() = 0;  // on the pump's thread
  };

  EventPump();
  ~EventPump() { Stop(); }

  // `writer` will write its events; it lives at least so long. Never blocks; nothing after Stop.
  // A writer asks anew only when it has been served, so that no more wait than there are.
  void Ask(std::shared_ptr<Writer> writer);
  // Joins.
  void Stop();

 private:
  void Loop();

  Mutex mu_;
  ConditionVariable changed_;
  std::vector<std::shared_ptr<Writer>> asked_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_EVENT_PUMP_H_
