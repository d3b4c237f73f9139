#ifndef MOETIER_DAEMON_RPC_COMPUTE_REACTOR_H_
#define MOETIER_DAEMON_RPC_COMPUTE_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <memory>

#include "daemon/rpc/service_context.h"
#include "daemon/rpc/session.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// One unary Compute call: as a layer message of a Decode stream, with the fault as the call's
// status. The earlier of timeout_us and the call's own gRPC deadline counts.
// Lifetime: deletes itself in OnDone, which gRPC calls after Finish, which the core's answer calls.
class ComputeReactor final : public grpc::ServerUnaryReactor {
 public:
  static ComputeReactor* Start(ServiceContext& context, grpc::CallbackServerContext& call,
                               const v1::LayerRequest& request, v1::LayerReply& reply);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  ComputeReactor(ServiceContext& context, v1::LayerReply& reply)
      : context_(context), reply_(reply) {}
  void Submit(grpc::CallbackServerContext& call, const v1::LayerRequest& request);
  void FinishFault(const Error& error, const FaultPlace& place = {});
  void FinishResult(uint32_t rows, const LayerOutput& output);

  ServiceContext& context_;
  v1::LayerReply& reply_;  // gRPC's, valid until OnDone
  std::shared_ptr<Session> session_;
  const std::shared_ptr<CallControl> control_ = std::make_shared<CallControl>();
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_COMPUTE_REACTOR_H_
