#ifndef MOETIER_DAEMON_RPC_SESSION_EVENT_QUEUE_H_
#define MOETIER_DAEMON_RPC_SESSION_EVENT_QUEUE_H_

#include <cstddef>
#include <deque>
#include <variant>

#include "base/result.h"
#include "daemon/scheduling/residency_calls.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// The events that wait for one client to read its Attach stream, in order. Victims next to each
// other leave as one event; a transfer that ended between them keeps its place.
// Threads: its owner's lock.
class SessionEventQueue {
 public:
  // Victims and ended transfers come in bursts: four Fills of as many keys as a call takes, each of
  // which makes a victim, wait here whole.
  static constexpr size_t kMaxNotices = 32768;
  static constexpr size_t kMaxEvents = 256;  // all others are rare: who lags so far is stuck
  static constexpr size_t kMaxVictimsOfEvent = 1024;

  // kExhausted, kQuota when too many wait.
  Status Push(v1::SessionEvent event);
  Status Push(const Victim& victim);
  Status Push(const EndedTransfer& transfer);
  // Before all that wait; without a bound.
  void PushFirst(v1::SessionEvent event);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] v1::SessionEvent Pop();  // of a queue that is not empty
  void Clear();

 private:
  using Entry = std::variant<v1::SessionEvent, Victim, EndedTransfer>;
  Status Push(Entry entry, size_t& count, size_t most);

  std::deque<Entry> entries_;
  size_t events_ = 0;   // of the entries: those that are no notices
  size_t notices_ = 0;  // the others
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_SESSION_EVENT_QUEUE_H_
