#include "daemon/scheduling/session_residency.h"

#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

Error Stopped() {
  return {ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
}

}  // namespace

Bytes SessionResidency::LeasableBytes(ModelId model) const {
  return executor_.LeasableBytes(model);
}

void SessionResidency::OpenSession(const Session& session) {
  executor_.AtDesk([session](ResidencyDesk& desk) { desk.OpenSession(session); });
}

void SessionResidency::Acquire(AcquireRequest request, Done<std::vector<LeaseOutcome>> done) {
  const bool sent = executor_.AtDesk(
      [request = std::move(request), done](ResidencyDesk& desk) { desk.Acquire(request, done); });
  if (!sent) done(Stopped());
}

void SessionResidency::Release(ReleaseRequest request, Done<uint32_t> done) {
  const bool sent = executor_.AtDesk(
      [request = std::move(request), done](ResidencyDesk& desk) { desk.Release(request, done); });
  if (!sent) done(Stopped());
}

void SessionResidency::Transfer(TransferRequest request, Done<std::vector<TransferOutcome>> done) {
  const bool sent = executor_.AtDesk(
      [request = std::move(request), done](ResidencyDesk& desk) { desk.Transfer(request, done); });
  if (!sent) done(Stopped());
}

void SessionResidency::Landed(LandedRequest request, Done<LandedTransfers> done) {
  const bool sent = executor_.AtDesk([=](ResidencyDesk& desk) { desk.Landed(request, done); });
  if (!sent) done(Stopped());
}

void SessionResidency::Fence(PoolRequest request, std::function<void(Status)> done) {
  const bool sent = executor_.AtDesk([=](ResidencyDesk& desk) { desk.Fence(request, done); });
  if (!sent) done(Stopped());
}

void SessionResidency::Drain(PoolRequest request, std::function<void(Status)> done) {
  const bool sent = executor_.AtDesk([=](ResidencyDesk& desk) { desk.Drain(request, done); });
  if (!sent) done(Stopped());
}

// An executor that has stopped has answered all that waited.
void SessionResidency::Cancel(SessionId session, CallId call) {
  executor_.AtDesk([=](ResidencyDesk& desk) { desk.Cancel(session, call); });
}

void SessionResidency::Route(SessionId session, LayerIndex layer, uint32_t rows,
                             std::vector<ExpertIndex> experts,
                             Done<std::vector<RoutedExpert>> done) {
  const bool sent = executor_.AtDesk(
      [session, layer, rows, experts = std::move(experts), done](ResidencyDesk& desk) {
        desk.Route(session, layer, rows, experts, done);
      });
  if (!sent) done(Stopped());
}

}  // namespace moetier
