#ifndef MOETIER_DAEMON_RPC_TRACE_REACTOR_H_
#define MOETIER_DAEMON_RPC_TRACE_REACTOR_H_

#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "daemon/rpc/service_context.h"
#include "daemon/rpc/trace_tap.h"

namespace moetier {

// One RecordTrace stream: sends what its tap has seen, and looks again every 20 ms when that is
// nothing, so that recording costs the executor no wake-up. The daemon's drain ends it with
// kDraining once all is sent, the model's unload with kUnknownModel.
// Threads:  any; gRPC operations are started under its lock, as in DecodeReactor.
// Lifetime: holds itself until gRPC is done with it; a ringing alarm may hold it longer.
class TraceReactor final : public grpc::ServerWriteReactor<v1::TraceRecord>,
                           public std::enable_shared_from_this<TraceReactor> {
 public:
  static TraceReactor* Start(ServiceContext& context, std::optional<ModelId> model);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  TraceReactor(ServiceContext& context, std::optional<ModelId> model);
  void Look() EXCLUDES(mu_);
  void Pump() REQUIRES(mu_);
  void End(const grpc::Status& status) REQUIRES(mu_);

  ServiceContext& context_;
  const std::optional<ModelId> model_;   // none: all
  const std::shared_ptr<TraceTap> tap_;  // shared with the executor
  std::shared_ptr<TraceReactor> self_;
  Mutex mu_;
  v1::TraceRecord current_;  // owned by gRPC while writing_
  // A new one each time: it may not be set again within its own callback.
  std::unique_ptr<grpc::Alarm> alarm_ GUARDED_BY(mu_);
  bool writing_ GUARDED_BY(mu_) = false;
  bool finished_ GUARDED_BY(mu_) = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_TRACE_REACTOR_H_
