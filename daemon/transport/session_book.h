#ifndef MOETIER_DAEMON_TRANSPORT_SESSION_BOOK_H_
#define MOETIER_DAEMON_TRANSPORT_SESSION_BOOK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "daemon/scheduling/layer_call.h"

namespace moetier {

// What the status tells of one session, whatever its transport. Threads: the counters any, the rest
// is immutable. Lifetime: shared by the book, its session and the session's unanswered calls.
struct SessionRecord {
  // Gauges and counters for the status only, so that relaxed order suffices.
  struct Counters {
    std::atomic<uint32_t> in_flight{0};
    std::atomic<uint64_t> requests{0};
    std::atomic<uint64_t> rows{0};
    std::atomic<uint64_t> faults{0};
  };

  SessionId id{};
  std::string client;
  ModelId model{};
  std::string model_name;
  std::string transport;  // "grpc", "fastlane"
  TimePoint since{};
  std::chrono::system_clock::time_point wall_since{};
  mutable Counters counters;
};

// The sessions that live now, over all transports: gives each its number, which is never used
// again. Threads: any.
class SessionBook {
 public:
  struct Entry {
    std::string client;
    ModelId model{};
    std::string model_name;
    std::string transport;
    TimePoint since{};
    std::shared_ptr<const void> hold{};  // of the model (ModelInfo::hold): let go by Close
  };

  [[nodiscard]] std::shared_ptr<const SessionRecord> Open(Entry entry);
  void Close(SessionId id);
  // In order of their numbers.
  [[nodiscard]] std::vector<std::shared_ptr<const SessionRecord>> sessions() const;

 private:
  struct Live {
    std::shared_ptr<const SessionRecord> record;
    std::shared_ptr<const void> hold;
  };

  mutable Mutex mu_;
  uint64_t last_id_ GUARDED_BY(mu_) = 0;
  std::map<SessionId, Live> sessions_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_SESSION_BOOK_H_
