#ifndef MOETIER_TESTS_SIM_SIM_ENGINES_H_
#define MOETIER_TESTS_SIM_SIM_ENGINES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/scheduling/residency_calls.h"
#include "tests/sim/sim_engine.h"
#include "tests/sim/sim_places.h"
#include "tests/sim/sim_stage.h"
#include "tests/sim/victim_auditor.h"

namespace moetier {

// Engines with kernels of their own: sessions that lease what is resident, wait for what loads,
// have experts brought to RAM or VRAM, and end in the middle of it. Checks that each call is
// answered once, that what it is told is so at that moment, and that a refusal has its reason.
class SimEngines {
 public:
  explicit SimEngines(const SimStage& stage);

  // One engine does something.
  void Act();
  // The operator asks whether the model could be unloaded.
  void CheckUnload();
  void EndAllSessions();

  void BeginTurn() { victims_.BeginTurn(); }
  void EndTurn() { victims_.EndTurn(); }
  // After every event.
  void Look();
  // Calls that only time will answer. A breach if others wait, since nothing is under way.
  [[nodiscard]] bool WaitForTime();
  // When nothing is under way any more.
  void CheckAtRest() const;
  [[nodiscard]] std::set<ExpertKey> Leased(PoolId pool) const;
  [[nodiscard]] bool HasLeases() const;
  [[nodiscard]] bool HasWaitingAcquire() const;
  // Something is leased on the device, or a call waits for it and for nothing else.
  [[nodiscard]] bool NeedDevice() const { return AwaitDevice() || !Leased(kDevicePool).empty(); }

 private:
  using EnginePtr = std::shared_ptr<SimEngine>;  // the executor holds them weakly, messages too
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  struct AcquireCall;
  struct TransferCall;
  // Keys as an Acquire names them.
  struct Named {
    SessionId session{};
    std::vector<ExpertKey> keys;
    std::optional<PoolId> pool;
    [[nodiscard]] std::set<Place> Places() const;
  };

  void Open();
  void EndSession(const EnginePtr& engine);
  void Acquire(const EnginePtr& engine);
  void Release(const EnginePtr& engine);
  void ReleaseKeys(const EnginePtr& engine);
  void Cancel(const EnginePtr& engine);
  void Transfer(const EnginePtr& engine, PoolId to);
  void Landed(const EnginePtr& engine);
  void Fence(const EnginePtr& engine, PoolId pool);
  void Drain(const EnginePtr& engine, PoolId pool);
  void Route(const EnginePtr& engine);

  // sim_engines_checks.cc
  void LookForRoom(AcquireCall& call) const;
  void TakeOutcomes(AcquireCall& call, const std::vector<LeaseOutcome>& outcomes);
  void TakeLease(const AcquireCall& call, size_t index, const SlotLease& lease);
  void TakeRefusal(const AcquireCall& call, size_t index, const NotLeased& refusal);
  void TakeTransfer(const TransferCall& call, size_t index, const TransferOutcome& outcome);
  [[nodiscard]] bool IsExplained(const TransferCall& call, size_t index, const Error& error) const;
  void TakeRoute(const std::vector<ExpertKey>& keys, const std::vector<RoutedExpert>& routed);

  // A call that is to be answered once: `take` looks at a good answer.
  CallPtr Ask(const EnginePtr& engine, std::string what);
  template <typename T>
  std::function<void(Result<T>)> Expect(const CallPtr& call, std::function<void(const T&)> take);
  void Count(Call& call);
  void TakeError(const Call& call, const Error& error);
  [[nodiscard]] Named TakeNamed(const EnginePtr& engine);
  size_t NoteReleased(const EnginePtr& engine, const std::set<Place>& places);
  [[nodiscard]] Bytes MostCharge(const SimEngine& engine) const;
  void Spoil();
  void CheckRoom(const LoadedModel& model) const;
  void SeeLoss();
  void CheckLost(const LoadedModel& model) const;
  [[nodiscard]] bool AwaitDevice() const;
  [[nodiscard]] std::set<ExpertKey> Leased(PoolId pool, SizeClass size_class) const;
  // Runs in the executor's next turn, as what ResidencyCalls sends does.
  void Send(const CallPtr& call, std::function<void(ResidencyDesk&)> run);

  std::vector<ExpertKey> DrawKeys(uint32_t most);
  PoolId DrawPool();

  const SimStage stage_;
  const SimPlaces places_;
  VictimAuditor victims_;
  std::vector<EnginePtr> engines_;  // until the executor has ended them
  std::vector<CallPtr> calls_;      // not known to be answered
  std::vector<Named> lost_;         // Acquires whose answers are lost
  std::set<LeaseId> leases_given_;
  bool loss_seen_ = false;
  uint64_t last_call_ = 0;
  uint64_t last_session_ = 1000;  // those of SimCalls are below
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_ENGINES_H_
