#ifndef MOETIER_TESTS_SIM_SIM_STAGE_H_
#define MOETIER_TESTS_SIM_SIM_STAGE_H_

#include "tests/sim/executor_auditor.h"
#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"

namespace moetier {

// What all that act in a seed share. Lifetime: the world owns what it names.
struct SimStage {
  SimMachine& machine;
  ExecutorAuditor& auditor;
  Random& random;
  const ExecutorCanary canary;
  SimTrace& trace;

  // The canary's fault is to be planted now, one time in 100 / percent.
  [[nodiscard]] bool Plants(ExecutorCanary fault, uint32_t percent) const {
    return canary == fault && random.Percent(percent);
  }
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_STAGE_H_
