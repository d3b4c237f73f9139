#ifndef MOETIER_DAEMON_RPC_RESIDENCY_SERVICE_H_
#define MOETIER_DAEMON_RPC_RESIDENCY_SERVICE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "daemon/rpc/service_context.h"
#include "daemon/rpc/waiting_reactor.h"
#include "moetier/v1/residency.grpc.pb.h"

namespace moetier {

// Leases and transfers for engines with kernels of their own: checks what is asked, asks the core
// and answers when it does. Threads: gRPC's.
class ResidencyService final : public v1::Residency::CallbackService {
 public:
  static constexpr std::chrono::seconds kLongestWait{60};  // residency.proto says it too

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
  grpc::ServerUnaryReactor* Transfer(PoolKind to, grpc::CallbackServerContext& call,
                                     const v1::TransferRequest& request, v1::TransferReply& reply);

  using PoolCall = void (ResidencyCalls::*)(ResidencyCalls::PoolRequest,
                                            std::function<void(Status)>);
  grpc::ServerUnaryReactor* AwaitPool(PoolCall await, const grpc::CallbackServerContext& call,
                                      const v1::PoolRequest& request);
  // Ends with the call.
  [[nodiscard]] WaitingReactor& MayWait(const grpc::CallbackServerContext& call);

  ServiceContext& context_;
  std::atomic<uint64_t> last_call_{0};  // relaxed: it orders nothing
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_RESIDENCY_SERVICE_H_
