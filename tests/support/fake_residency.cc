#include "tests/support/fake_residency.h"

#include <fmt/core.h>

namespace moetier {
namespace {

Error NotThereYet() {
  return {ErrorCode::kUnimplemented, Reason::kNotYet, "not implemented in this version"};
}

}  // namespace

Bytes FakeResidency::LeasableBytes(ModelId /*model*/) const { return Bytes(0); }
void FakeResidency::OpenSession(const Session& /*session*/) {}
void FakeResidency::Acquire(AcquireRequest /*request*/, Done<std::vector<LeaseOutcome>> done) {
  done(NotThereYet());
}
void FakeResidency::Release(SessionId /*session*/, std::vector<LeaseId> /*leases*/,
                            Done<uint32_t> done) {
  done(NotThereYet());
}
void FakeResidency::Transfer(TransferRequest /*request*/, Done<std::vector<TransferOutcome>> done) {
  done(NotThereYet());
}
void FakeResidency::Landed(SessionId /*session*/, TransferId /*after*/,
                           std::chrono::microseconds /*wait*/, Done<LandedTransfers> done) {
  done(NotThereYet());
}
void FakeResidency::Fence(SessionId /*session*/, PoolId /*pool*/,
                          std::function<void(Status)> done) {
  done(NotThereYet());
}
void FakeResidency::Drain(SessionId /*session*/, PoolId /*pool*/,
                          std::function<void(Status)> done) {
  done(NotThereYet());
}
void FakeResidency::Route(SessionId /*session*/, LayerIndex /*layer*/, uint32_t /*rows*/,
                          std::vector<ExpertIndex> /*experts*/,
                          Done<std::vector<RoutedExpert>> done) {
  done(NotThereYet());
}
Result<ResidencyCalls::SharedArena> FakeResidency::OpenArena(ModelId /*model*/, PoolId /*pool*/) {
  return NotThereYet();
}

}  // namespace moetier
