#ifndef MOETIER_DAEMON_RPC_EXPERTS_SERVICE_H_
#define MOETIER_DAEMON_RPC_EXPERTS_SERVICE_H_

#include "daemon/rpc/service_context.h"
#include "moetier/v1/experts.grpc.pb.h"

namespace moetier {

// The data plane; each call has its own reactor. Threads: gRPC's.
class ExpertsService final : public v1::Experts::CallbackService {
 public:
  explicit ExpertsService(ServiceContext& context) : context_(context) {}

  grpc::ServerWriteReactor<v1::SessionEvent>* Attach(grpc::CallbackServerContext* call,
                                                     const v1::AttachRequest* request) override;
  grpc::ServerBidiReactor<v1::DecodeRequest, v1::LayerReply>* Decode(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* call,
                                    const v1::LayerRequest* request,
                                    v1::LayerReply* reply) override;
  grpc::ServerUnaryReactor* Route(grpc::CallbackServerContext* call,
                                  const v1::RouteRequest* request, v1::RouteReply* reply) override;
  grpc::ServerUnaryReactor* Hint(grpc::CallbackServerContext* call, const v1::HintRequest* request,
                                 v1::HintReply* reply) override;

 private:
  ServiceContext& context_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_EXPERTS_SERVICE_H_
