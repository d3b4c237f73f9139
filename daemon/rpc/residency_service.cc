#include "daemon/rpc/residency_service.h"

#include "daemon/rpc/unary_reply.h"

namespace moetier {

grpc::ServerUnaryReactor* ResidencyService::Acquire(grpc::CallbackServerContext* call,
                                                    const v1::AcquireRequest* /*request*/,
                                                    v1::AcquireReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Acquire")));
}

grpc::ServerUnaryReactor* ResidencyService::Release(grpc::CallbackServerContext* call,
                                                    const v1::ReleaseRequest* /*request*/,
                                                    v1::ReleaseReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Release")));
}

grpc::ServerUnaryReactor* ResidencyService::Fill(grpc::CallbackServerContext* call,
                                                 const v1::TransferRequest* /*request*/,
                                                 v1::TransferReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Fill")));
}

grpc::ServerUnaryReactor* ResidencyService::Push(grpc::CallbackServerContext* call,
                                                 const v1::TransferRequest* /*request*/,
                                                 v1::TransferReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Push")));
}

grpc::ServerUnaryReactor* ResidencyService::Landed(grpc::CallbackServerContext* call,
                                                   const v1::LandedRequest* /*request*/,
                                                   v1::LandedReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Landed")));
}

grpc::ServerUnaryReactor* ResidencyService::Fence(grpc::CallbackServerContext* call,
                                                  const v1::PoolRequest* /*request*/,
                                                  v1::FenceReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Fence")));
}

grpc::ServerUnaryReactor* ResidencyService::Drain(grpc::CallbackServerContext* call,
                                                  const v1::PoolRequest* /*request*/,
                                                  v1::DrainReply* /*reply*/) {
  return FinishNow(*call, context_.Refuse(NotYet("Residency.Drain")));
}

}  // namespace moetier
