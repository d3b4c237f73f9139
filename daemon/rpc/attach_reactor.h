#ifndef MOETIER_DAEMON_RPC_ATTACH_REACTOR_H_
#define MOETIER_DAEMON_RPC_ATTACH_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "daemon/rpc/event_pump.h"
#include "daemon/rpc/service_context.h"
#include "daemon/rpc/session.h"
#include "daemon/rpc/session_event_queue.h"
#include "daemon/scheduling/residency_calls.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// One session's Attach stream: opens the session, sends the Grant and then events, and closes it as
// the stream ends, whatever ended it. Victims, transfers and lost leases come on the executor's
// thread, which queues them; whoever starts the next write translates it, without the lock.
// Threads: any. The stream is finished under its lock, which is safe since gRPC 1.51 runs no
//          reaction inside the call that starts an operation.
// Lifetime: holds itself until gRPC is done with it; senders of events may hold it longer.
class AttachReactor final : public grpc::ServerWriteReactor<v1::SessionEvent>,
                            public SessionEventSink,
                            public ResidencyListener,
                            public EventPump::Writer,
                            public std::enable_shared_from_this<AttachReactor> {
 public:
  static AttachReactor* Start(ServiceContext& context, const v1::AttachRequest& request);

  void SendEvent(const v1::SessionEvent& event) override;
  void EndStream(const Error& why) override;
  void OnVictims(const Victims& victims) override;
  void OnTransferEnded(const EndedTransfer& transfer) override;
  void OnLeasesLost(const LostLeases& lost) override;
  void WriteEvents() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit AttachReactor(ServiceContext& context) : context_(context) {}
  Result<v1::SessionEvent> Open(const v1::AttachRequest& request);
  // What the session may lease; its leases and transfers begin.
  Bytes OpenResidency();
  [[nodiscard]] bool Wants(v1::Feature feature) const;
  void CloseSession();
  // Who lags too far loses the stream.
  void EndIfFull(const Status& pushed) REQUIRES(mu_);
  // Has the next write started on the pump's thread, unless one is under way.
  void AskToWrite() REQUIRES(mu_);
  // Starts the next write, or finishes, unless a write is under way.
  void Pump() EXCLUDES(mu_);

  ServiceContext& context_;
  std::shared_ptr<Session> session_;  // set before gRPC may call back; null when refused
  std::shared_ptr<AttachReactor> self_;
  std::vector<v1::Feature> features_;  // given; set before the session is opened, then const
  Mutex mu_;
  SessionEventQueue events_ GUARDED_BY(mu_);
  v1::SessionEvent current_;              // owned by who set writing_, then by gRPC
  bool granted_ GUARDED_BY(mu_) = false;  // Start has queued the first event or the refusal
  bool writing_ GUARDED_BY(mu_) = false;
  bool asked_ GUARDED_BY(mu_) = false;  // the pump
  bool finished_ GUARDED_BY(mu_) = false;
  std::optional<grpc::Status> end_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_ATTACH_REACTOR_H_
