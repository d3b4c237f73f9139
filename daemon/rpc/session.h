#ifndef MOETIER_DAEMON_RPC_SESSION_H_
#define MOETIER_DAEMON_RPC_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/transport/session_book.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// A Decode stream as its session sees it.
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  // The stream ends with `why`, now; what it has in flight is cancelled. Any thread.
  virtual void EndStream(const Error& why) = 0;
  // The stream ends with `why` once all that was read is answered. Any thread.
  virtual void DrainStream(const Error& why) = 0;
};

// An Attach stream as its session sees it.
class SessionEventSink {
 public:
  virtual ~SessionEventSink() = default;
  // Queues the event; never blocks. Any thread.
  virtual void SendEvent(const v1::SessionEvent& event) = 0;
  // The stream ends with `why`, after the events queued before. Any thread.
  virtual void EndStream(const Error& why) = 0;
};

// One attached client. It lives as long as its Attach stream; streams and calls that still hold it
// afterwards find it ended.
// Threads: any. Lifetime: shared by the registry, its streams and its unanswered calls.
class Session {
 public:
  struct Options {
    std::shared_ptr<const SessionRecord> record;
    std::string token;  // kSessionTokenBytes random bytes
    ModelInfo model;    // as it was at Attach, without its hold, which the book has
    uint32_t max_streams = 0;
    std::weak_ptr<SessionEventSink> events;
  };

  explicit Session(Options options) : options_(std::move(options)) {}

  // kUnavailable, kUnknownSession once ended; kExhausted, kQuota above max_streams.
  Status AddStream(const std::shared_ptr<SessionStream>& stream);
  void RemoveStream(const SessionStream* stream);

  // Ends every stream; later AddStream calls are refused. Once is enough, more do no harm.
  void End(const Error& why);
  // Ends every stream as soon as it has answered what it has read.
  void DrainStreams(const Error& why);

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] SessionId id() const { return options_.record->id; }
  [[nodiscard]] const ModelInfo& model() const { return options_.model; }
  [[nodiscard]] SessionRecord::Counters& counters() const { return options_.record->counters; }

 private:
  [[nodiscard]] std::vector<std::shared_ptr<SessionStream>> LiveStreams() REQUIRES(mu_);

  const Options options_;
  Mutex mu_;
  bool ended_ GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<SessionStream>> streams_ GUARDED_BY(mu_);
};

inline constexpr size_t kSessionTokenBytes = 16;

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_SESSION_H_
