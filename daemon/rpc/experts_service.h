#ifndef MOETIER_DAEMON_RPC_EXPERTS_SERVICE_H_
#define MOETIER_DAEMON_RPC_EXPERTS_SERVICE_H_

#include "daemon/rpc/service_context.h"
#include "moetier/v1/experts.grpc.pb.h"

namespace moetier {

// Decode by its bytes: gRPC itself ends a typed stream alike for bytes that are no message and for
// a half-close.
using ExpertsBase =
    v1::Experts::WithRawCallbackMethod_Decode<v1::Experts::WithCallbackMethod_Attach<
        v1::Experts::WithCallbackMethod_Compute<v1::Experts::WithCallbackMethod_Route<
            v1::Experts::WithCallbackMethod_Hint<v1::Experts::Service>>>>>;

// The data plane; each call has its own reactor. Threads: gRPC's.
class ExpertsService final : public ExpertsBase {
 public:
  explicit ExpertsService(ServiceContext& context) : context_(context) {}

  grpc::ServerWriteReactor<v1::SessionEvent>* Attach(grpc::CallbackServerContext* call,
                                                     const v1::AttachRequest* request) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Decode(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* call,
                                    const v1::LayerRequest* request,
                                    v1::LayerReply* reply) override;
  grpc::ServerUnaryReactor* Route(grpc::CallbackServerContext* call,
                                  const v1::RouteRequest* request, v1::RouteReply* reply) override;
  grpc::ServerUnaryReactor* Hint(grpc::CallbackServerContext* call, const v1::HintRequest* request,
                                 v1::HintReply* reply) override;

 private:
  grpc::Status TakeHints(const v1::HintRequest& request, v1::HintReply& reply);

  ServiceContext& context_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_EXPERTS_SERVICE_H_
