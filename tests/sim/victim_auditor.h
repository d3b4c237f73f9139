#ifndef MOETIER_TESTS_SIM_VICTIM_AUDITOR_H_
#define MOETIER_TESTS_SIM_VICTIM_AUDITOR_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tests/sim/executor_auditor.h"
#include "tests/sim/sim_places.h"

namespace moetier {

// Whether sessions that listen are told of each expert that leaves a slot: once, at the latest in
// the turn that follows, before other bytes are in the slot. What has left is seen by looking at
// the ledgers after every event, and counted by them.
class VictimAuditor {
 public:
  VictimAuditor(const SimPlaces& places, size_t size_classes, ExecutorAuditor& auditor)
      : places_(places), size_classes_(size_classes), auditor_(auditor) {}

  // Within a turn: the session listens from now on, or no more.
  void Listens(SessionId session);
  void Closes(SessionId session) { listeners_.erase(session); }
  void IsTold(SessionId session, const std::vector<Victim>& victims);

  void BeginTurn();
  void EndTurn();
  // After every event.
  void Look();

 private:
  struct At {
    PoolId pool{};
    SizeClass size_class{};
    SlotIndex slot{};
    friend auto operator<=>(const At&, const At&) = default;
  };
  struct Tenant {
    ExpertKey key;
    uint32_t generation = 0;
    friend auto operator<=>(const Tenant&, const Tenant&) = default;
  };
  struct Gone {
    At from;
    Tenant tenant;
  };
  struct Listener {
    uint64_t since_turn = 0;
    uint64_t evictions_before = 0;
    uint64_t told_early_most = 0;  // of what had left in the turn before it listened
    uint64_t told = 0;
    std::set<std::pair<PoolId, Tenant>> victims;
  };

  const SimPlaces& places_;
  const size_t size_classes_;
  ExecutorAuditor& auditor_;
  uint64_t turn_ = 0;
  uint64_t evictions_due_ = 0;  // when the turn began
  std::map<At, Tenant> residents_;
  std::vector<Gone> gone_;  // since the turn began
  std::vector<Gone> due_;   // before
  std::map<SessionId, Listener> listeners_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_VICTIM_AUDITOR_H_
