#ifndef MOETIER_DAEMON_RPC_UNARY_REPLY_H_
#define MOETIER_DAEMON_RPC_UNARY_REPLY_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "daemon/rpc/service_context.h"

namespace moetier {

// Ends a unary call whose answer is known when it arrives.
inline grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& call,
                                           const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// Runs `work`, which gives the call's status, on the worker; a refused task ends it at once.
template <typename Work>
grpc::ServerUnaryReactor* FinishOn(AdminWorker& worker, ServiceContext& context,
                                   grpc::CallbackServerContext& call, Work work) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  const Status queued = worker.Run([&context, reactor, work = std::move(work)](const Status& go) {
    reactor->Finish(go ? work() : context.Refuse(go.error()));
  });
  if (!queued) reactor->Finish(context.Refuse(queued.error()));
  return reactor;
}

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_UNARY_REPLY_H_
