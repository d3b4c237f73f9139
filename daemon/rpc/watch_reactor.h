#ifndef MOETIER_DAEMON_RPC_WATCH_REACTOR_H_
#define MOETIER_DAEMON_RPC_WATCH_REACTOR_H_

#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <memory>

#include "base/mutex.h"
#include "daemon/rpc/status_report.h"
#include "moetier/v1/operator.pb.h"

namespace moetier {

// One WatchStatus stream: a status, then one an interval after the last was taken by the client.
// The daemon's drain ends it with kDraining after a last status. Threads: any; gRPC operations are
// started under its lock, as in DecodeReactor. Lifetime: holds itself until gRPC is done with it; a
// ringing alarm may hold it longer.
class WatchReactor final : public grpc::ServerWriteReactor<v1::StatusReply>,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  static WatchReactor* Start(StatusReport& report, std::chrono::milliseconds interval);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WatchReactor(StatusReport& report, std::chrono::milliseconds interval)
      : report_(report), interval_(interval) {}
  void WriteNow() EXCLUDES(mu_);
  void End(const grpc::Status& status) REQUIRES(mu_);

  StatusReport& report_;
  const std::chrono::milliseconds interval_;
  std::shared_ptr<WatchReactor> self_;
  Mutex mu_;
  v1::StatusReply current_;  // owned by gRPC while writing_
  grpc::Alarm alarm_ GUARDED_BY(mu_);
  bool writing_ GUARDED_BY(mu_) = false;
  bool cancelled_ GUARDED_BY(mu_) = false;
  bool finished_ GUARDED_BY(mu_) = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_WATCH_REACTOR_H_
