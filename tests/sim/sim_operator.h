#ifndef MOETIER_TESTS_SIM_SIM_OPERATOR_H_
#define MOETIER_TESTS_SIM_SIM_OPERATOR_H_

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tests/sim/executor_auditor.h"
#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"

namespace moetier {

// The operator: pins, live budgets, preheats, reloads of what was quarantined. Checks that what it
// was granted is so.
class SimOperator {
 public:
  SimOperator(SimMachine& machine, ExecutorAuditor& auditor, Random& random, ExecutorCanary canary,
              SimTrace& trace)
      : machine_(machine), auditor_(auditor), random_(random), canary_(canary), trace_(trace) {}

  void Pin();
  void Unpin();
  void UnpinAll();
  // In RAM or VRAM. One at a time, as in the daemon; nothing while one is under way.
  void ChangeBudget();
  void Preheat();
  void Reload();
  // Looks after what is under way. False when nothing has changed.
  bool Continue();

  void CheckPins();
  // When nothing is under way any more; `stopping`: the executor was told to.
  void CheckAtRest(bool stopping);
  [[nodiscard]] const std::set<ExpertKey>& pinned() const { return pinned_; }
  void Stopping() { stopping_ = true; }

 private:
  struct Budget {
    ModelPool of{kSimModel, kRamPool};
    std::vector<uint32_t> slots;  // by size class
    std::vector<SlotRun> taken;   // have memory again, and are to be used when the rest has retired
  };

  std::vector<ExpertKey> DrawKeys(uint32_t most);
  void AskFor(const std::vector<ExpertKey>& keys);
  [[nodiscard]] bool LackRoom(const std::vector<ExpertKey>& keys);
  [[nodiscard]] bool IsTooSmall(const Budget& budget);
  bool ConcludePins();
  bool ContinueBudget();
  [[nodiscard]] Status SetBudget(Budget& budget);
  [[nodiscard]] Status TakeMissing(Budget& budget);
  void GiveBack(const ModelPool& of, SizeClass size_class, SlotIndex slot);
  void GiveBackEarly(const Budget& budget);
  void CheckInForce(const Budget& budget);

  SimMachine& machine_;
  ExecutorAuditor& auditor_;
  Random& random_;
  const ExecutorCanary canary_;
  SimTrace& trace_;
  std::optional<SteppedExecutor::Pins> asked_;  // one at a time, as in the daemon
  std::set<ExpertKey> unpinned_;                // since it was asked for
  std::set<ExpertKey> pinned_;                  // landed
  std::optional<Budget> budget_;
  bool stopping_ = false;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_OPERATOR_H_
