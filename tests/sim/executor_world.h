#ifndef MOETIER_TESTS_SIM_EXECUTOR_WORLD_H_
#define MOETIER_TESTS_SIM_EXECUTOR_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/executor_auditor.h"
#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_calls.h"
#include "tests/sim/sim_engines.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_operator.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"

namespace moetier {

// The real executor with sessions, an operator, a drive and a device, all driven by one seed on one
// thread: what happens next is always its choice.
class ExecutorWorld {
 public:
  ExecutorWorld(SimModel& model, uint64_t seed, ExecutorCanary canary, SimTrace& trace);

  // Plays the seed to its end; what was wrong first, if anything.
  std::optional<std::string> Run();

  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  void PlayOneEvent();
  void AdvanceSome();
  void MayLoseDevice();
  void MayStop();
  // Faults are over: everything must come to an end, and nothing be left.
  void ComeToRest();
  void RunUntilQuiet();
  // One turn; false when nothing is left to do until something comes.
  bool Turn();
  // Asks for the model's removal, which leases stand against.
  SteppedExecutor::Removal BeginRemoval();
  void RemoveModel(SteppedExecutor::Removal removal);
  void Look();
  [[nodiscard]] ExecutorAuditor::Held Held() const;

  Random random_;
  SimTrace& trace_;
  const SimSetup setup_;
  SimMachine machine_;
  ExecutorAuditor auditor_;
  SimCalls calls_;
  SimOperator operator_;
  SimEngines engines_;
  const uint32_t engine_share_;  // of events, percent
  bool may_lose_ = false;
  bool may_stop_ = false;
  bool stopping_ = false;
  uint64_t steps_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_EXECUTOR_WORLD_H_
