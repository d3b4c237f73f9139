#ifndef MOETIER_DAEMON_SCHEDULING_SESSION_RESIDENCY_H_
#define MOETIER_DAEMON_SCHEDULING_SESSION_RESIDENCY_H_

#include <functional>
#include <vector>

#include "daemon/scheduling/residency_calls.h"

namespace moetier {

class LayerExecutor;
class ResidencyDesk;

// ResidencyCalls for transports: each call goes to the executor's desk by message, and is answered
// with kDraining when the executor has stopped. A slot is exported on the caller's thread: the desk
// only holds it.
// Threads:  any. Lifetime: the executor outlives it.
class SessionResidency final : public ResidencyCalls {
 public:
  explicit SessionResidency(LayerExecutor& executor) : executor_(executor) {}

  [[nodiscard]] Bytes LeasableBytes(ModelId model) const override;
  void OpenSession(const Session& session) override;
  void Acquire(AcquireRequest request, Done<std::vector<LeaseOutcome>> done) override;
  void Release(ReleaseRequest request, Done<uint32_t> done) override;
  void Transfer(TransferRequest request, Done<std::vector<TransferOutcome>> done) override;
  void Landed(LandedRequest request, Done<LandedTransfers> done) override;
  void Fence(PoolRequest request, std::function<void(Status)> done) override;
  void Drain(PoolRequest request, std::function<void(Status)> done) override;
  void Cancel(SessionId session, CallId call) override;
  void Route(SessionId session, LayerIndex layer, uint32_t rows, std::vector<ExpertIndex> experts,
             Done<std::vector<RoutedExpert>> done) override;
  Result<SharedArena> OpenArena(ModelId model, PoolId pool) override;
  Result<LeasedMemory> OpenSlot(SessionId session, LeaseId lease, uint32_t most_granules) override;

 private:
  // What the desk says, which is waited for.
  template <typename T>
  Result<T> AskDesk(const std::function<Result<T>(ResidencyDesk&)>& ask);

  LayerExecutor& executor_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_SESSION_RESIDENCY_H_
