#ifndef MOETIER_TESTS_SUPPORT_PLAN_ORACLE_H_
#define MOETIER_TESTS_SUPPORT_PLAN_ORACLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/scheduling/layer_planner.h"
#include "daemon/scheduling/recorded_costs.h"
#include "tests/support/random.h"

namespace moetier {

// A layer to plan, with what its lanes cost.
struct PlanCase {
  RecordedCosts costs;
  std::vector<PlanPick> picks;
};

struct PlanCaseOptions {
  uint32_t picks = 8;
  bool equal_costs = false;   // one row and one kind throughout
  bool lanes_missing = true;  // now and then there is no zero-copy, or no CPU
};

// Costs and places drawn around those of a real box: some lanes cheap, some dear, hand-offs of none
// to a few experts' time.
PlanCase DrawPlanCase(Random& random, const PlanCaseOptions& options);

// The published records of GLM on a 3090: GPU 0.17 / 0.023 ms, zero-copy 0.38, CPU 0.145 / 0.104 /
// 0.040, a push of 9,474,048 bytes at 23.5 GB/s.
RecordedCosts::Record GlmRecord();

// When the layer ends if its picks run so; written apart from the planner, from its header's words.
// kNoLane when a pick stands under a lane that cannot run it.
PlanTime EndOf(std::span<const PlanPick> picks, const CostSource& costs,
               const LayerPlanner::Rules& rules, std::span<const PickLane> lanes);

// The least EndOf over all ways to place the picks: 2^n of them.
PlanTime BestEnd(std::span<const PlanPick> picks, const CostSource& costs,
                 const LayerPlanner::Rules& rules);

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_PLAN_ORACLE_H_
