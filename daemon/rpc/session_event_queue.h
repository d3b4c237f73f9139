#ifndef MOETIER_DAEMON_RPC_SESSION_EVENT_QUEUE_H_
#define MOETIER_DAEMON_RPC_SESSION_EVENT_QUEUE_H_

#include <cstddef>
#include <deque>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/scheduling/residency_calls.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// What is to be sent as one event, not translated yet: some neighbours of the batches that were
// pushed, shared with other sessions.
struct VictimRun {
  Victims batch;
  size_t first = 0;
  size_t count = 0;
};
using PendingEvent =
    std::variant<v1::SessionEvent, std::vector<VictimRun>, EndedTransfer, LostLeases>;
v1::SessionEvent ToProto(PendingEvent event);

// The events that wait for one client to read its Attach stream, in order. Victims next to each
// other leave as one event; a transfer that ended between them keeps its place.
// Threads: its owner's lock. Time: a push and a take cost by batches, not by victims, so that the
//          lock is held for a moment only.
class SessionEventQueue {
 public:
  // Victims and ended transfers come in bursts: four Fills of as many keys as a call takes, each of
  // which makes a victim, wait here whole.
  static constexpr size_t kMaxNotices = 32768;
  static constexpr size_t kMaxEvents = 256;  // all others are rare: who lags so far is stuck
  static constexpr size_t kMaxVictimsOfEvent = 1024;

  // kExhausted, kQuota when too many wait.
  Status Push(v1::SessionEvent event);
  Status Push(const Victims& victims);
  Status Push(const EndedTransfer& transfer);
  Status Push(const LostLeases& lost);
  // Before all that wait; without a bound.
  void PushFirst(v1::SessionEvent event);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] PendingEvent Take();  // of a queue that is not empty
  void Clear();

 private:
  using Entry = std::variant<v1::SessionEvent, VictimRun, EndedTransfer, LostLeases>;
  Status Push(Entry entry, size_t weight, size_t& count, size_t most);

  std::deque<Entry> entries_;
  size_t events_ = 0;   // of the entries: those that are no notices
  size_t notices_ = 0;  // the others, each victim for itself
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_SESSION_EVENT_QUEUE_H_
