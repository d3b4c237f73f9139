#ifndef MOETIER_DAEMON_SCHEDULING_SESSION_TURNS_H_
#define MOETIER_DAEMON_SCHEDULING_SESSION_TURNS_H_

#include <chrono>
#include <unordered_map>

#include "daemon/scheduling/layer_call.h"

namespace moetier {

// Who is served next, by start-time fair queueing (Goyal, Vin, Cheng 1996) over sessions: each is
// due at what it has been given so far, or now if it was away, and the one that is due first is
// served. So a session that asks for little waits for one run of experts of one that asks for all,
// and who was away has saved nothing up.
// Threads: its owner's. Memory: sessions that are due later than now, and a few more.
class SessionTurns {
 public:
  using Time = std::chrono::nanoseconds;  // of the lane, not the clock's

  // When the session is due; never before the latest of those that were served.
  [[nodiscard]] Time Due(SessionId session) const;
  // What is due at `due` is served: nobody is due before it any more.
  void Serve(Time due);
  // It was given so much of the lane.
  void Charge(SessionId session, Time cost);

 private:
  std::unordered_map<SessionId, Time> due_;
  Time now_{0};
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_SESSION_TURNS_H_
