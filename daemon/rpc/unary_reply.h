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

// Runs `work`, which gives the call's status, on the admin thread; a refused task ends it at once.
template <typename Work>
grpc::ServerUnaryReactor* FinishOnAdmin(ServiceContext& context, grpc::CallbackServerContext& call,
                                        Work work) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  const Status queued =
      context.admin.Run([reactor, work = std::move(work)] { reactor->Finish(work()); });
  if (!queued) reactor->Finish(context.Refuse(queued.error()));
  return reactor;
}

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_UNARY_REPLY_H_
