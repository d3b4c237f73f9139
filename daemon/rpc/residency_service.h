#ifndef MOETIER_DAEMON_RPC_RESIDENCY_SERVICE_H_
#define MOETIER_DAEMON_RPC_RESIDENCY_SERVICE_H_

#include "daemon/rpc/service_context.h"
#include "moetier/v1/residency.grpc.pb.h"

namespace moetier {

// Leases and transfers: every call answers UNIMPLEMENTED, NOT_YET in this version, so that a client
// can tell a daemon without them from one that it cannot reach. Threads: gRPC's.
class ResidencyService final : public v1::Residency::CallbackService {
 public:
  explicit ResidencyService(ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Acquire(grpc::CallbackServerContext* call,
                                    const v1::AcquireRequest* request,
                                    v1::AcquireReply* reply) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* call,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseReply* reply) override;
  grpc::ServerUnaryReactor* Fill(grpc::CallbackServerContext* call,
                                 const v1::TransferRequest* request,
                                 v1::TransferReply* reply) override;
  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext* call,
                                 const v1::TransferRequest* request,
                                 v1::TransferReply* reply) override;
  grpc::ServerUnaryReactor* Landed(grpc::CallbackServerContext* call,
                                   const v1::LandedRequest* request,
                                   v1::LandedReply* reply) override;
  grpc::ServerUnaryReactor* Fence(grpc::CallbackServerContext* call, const v1::PoolRequest* request,
                                  v1::FenceReply* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* call, const v1::PoolRequest* request,
                                  v1::DrainReply* reply) override;

 private:
  ServiceContext& context_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_RESIDENCY_SERVICE_H_
