#ifndef MOETIER_DAEMON_RPC_SESSION_REGISTRY_H_
#define MOETIER_DAEMON_RPC_SESSION_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "daemon/rpc/session.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/transport/session_book.h"

namespace moetier {

// The sessions that live now.
// Threads: any; no collaborator is called under its lock. Lifetime: outlives the gRPC server.
class SessionRegistry {
 public:
  struct Options {
    uint32_t max_sessions = 0;
    uint32_t max_streams = 0;  // Decode streams of one session
  };

  SessionRegistry(DaemonCore& core, const Clock& clock, SessionBook& book, const Options& options)
      : core_(core), clock_(clock), book_(book), options_(options) {}

  // kExhausted, kQuota when there are max_sessions; kUnavailable, kDraining after BeginDrain.
  Result<std::shared_ptr<Session>> Open(std::string client, ModelInfo model,
                                        std::weak_ptr<SessionEventSink> events);

  // kNotFound, kUnknownSession, alike for a number that does not live and for a wrong token.
  [[nodiscard]] Result<std::shared_ptr<Session>> Find(const v1::SessionRef& ref) const;

  // Ends the session's streams and frees what it held in the core. Once a session; more do no harm.
  void Close(SessionId id);

  // Refuses new sessions and tells those that live, by the Draining event.
  // Once; more do no harm.
  void BeginDrain(const std::string& message);
  // Ends all streams: Decode streams once they have answered what they have read, Attach streams
  // after their queued events. A session is closed as its Attach stream ends.
  void DrainStreams(const Error& why);

  void SendToAll(const v1::SessionEvent& event) const;
  [[nodiscard]] std::vector<std::shared_ptr<Session>> sessions() const;
  [[nodiscard]] bool draining() const;

 private:
  Status CheckRoom() const REQUIRES(mu_);

  DaemonCore& core_;
  const Clock& clock_;
  SessionBook& book_;
  const Options options_;
  mutable Mutex mu_;
  bool draining_ GUARDED_BY(mu_) = false;
  std::map<SessionId, std::shared_ptr<Session>> sessions_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_SESSION_REGISTRY_H_
