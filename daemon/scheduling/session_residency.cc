#include "daemon/scheduling/session_residency.h"

#include <fmt/core.h>

namespace moetier {
namespace {

Error NotThereYet() {
  return {ErrorCode::kUnimplemented, Reason::kNotYet, "not implemented in this version"};
}

}  // namespace

Bytes SessionResidency::LeasableBytes(ModelId /*model*/) const { return Bytes(0); }
void SessionResidency::OpenSession(const Session& /*session*/) {}
void SessionResidency::Acquire(AcquireRequest /*request*/, Done<std::vector<LeaseOutcome>> done) {
  done(NotThereYet());
}
void SessionResidency::Release(SessionId /*session*/, std::vector<LeaseId> /*leases*/,
                               Done<uint32_t> done) {
  done(NotThereYet());
}
void SessionResidency::Transfer(TransferRequest /*request*/,
                                Done<std::vector<TransferOutcome>> done) {
  done(NotThereYet());
}
void SessionResidency::Landed(SessionId /*session*/, TransferId /*after*/,
                              std::chrono::microseconds /*wait*/, Done<LandedTransfers> done) {
  done(NotThereYet());
}
void SessionResidency::Fence(SessionId /*session*/, PoolId /*pool*/,
                             std::function<void(Status)> done) {
  done(NotThereYet());
}
void SessionResidency::Drain(SessionId /*session*/, PoolId /*pool*/,
                             std::function<void(Status)> done) {
  done(NotThereYet());
}
void SessionResidency::Route(SessionId /*session*/, LayerIndex /*layer*/, uint32_t /*rows*/,
                             std::vector<ExpertIndex> /*experts*/,
                             Done<std::vector<RoutedExpert>> done) {
  done(NotThereYet());
}
}  // namespace moetier
