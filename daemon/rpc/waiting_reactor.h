#ifndef MOETIER_DAEMON_RPC_WAITING_REACTOR_H_
#define MOETIER_DAEMON_RPC_WAITING_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <optional>
#include <utility>
#include <vector>

#include "daemon/scheduling/residency_calls.h"

namespace moetier {

// Ends a call of Residency that may wait in the core. Once the client has cancelled it, or its time
// is up, the core is told to forget it; leases that are granted all the same are given back, since
// the client does not know of them.
// Threads:  Begin before gRPC may call back, Give before Finish, which the core's answer calls.
// Lifetime: its own; it ends with the call, whose context lives until OnDone has returned. The core
//           knows it by number alone, so that a cancel may come after the answer.
class WaitingReactor final : public grpc::ServerUnaryReactor {
 public:
  WaitingReactor(const grpc::CallbackServerContext& call, ResidencyCalls& residency, CallId id)
      : call_(call), residency_(residency), id_(id) {}

  [[nodiscard]] CallId id() const { return id_; }

  // The core is about to be asked.
  void Begin(SessionId session) { session_ = session; }
  void Give(std::vector<LeaseId> leases) { leases_ = std::move(leases); }

  void OnCancel() override {
    if (session_) residency_.Cancel(*session_, id_);
  }
  void OnDone() override {
    if (!leases_.empty() && call_.IsCancelled()) {
      residency_.Release({.session = *session_, .leases = std::move(leases_)},
                         [](const auto& /*count*/) {});
    }
    delete this;
  }

 private:
  const grpc::CallbackServerContext& call_;
  ResidencyCalls& residency_;
  const CallId id_;
  std::optional<SessionId> session_;  // none: refused without asking the core
  std::vector<LeaseId> leases_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_WAITING_REACTOR_H_
