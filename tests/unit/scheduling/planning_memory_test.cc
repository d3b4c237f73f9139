#include <catch2/catch.hpp>
#include <vector>

#include "daemon/scheduling/lane_costs.h"
#include "daemon/scheduling/plan_check.h"
#include "daemon/scheduling/read_forecast.h"
#include "tests/support/allocation_count.h"
#include "tests/support/plan_oracle.h"

namespace moetier {
namespace {

TEST_CASE("LayerPlanner: plans allocate nothing, from the first", "[scheduling]") {
  std::vector<PlanCase> cases;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const uint32_t picks = seed <= 150 ? random.Between(0, 16) : random.Between(17, 300);
    cases.push_back(DrawPlanCase(random, {.picks = picks}));
  }
  LayerPlanner planner(300);
  const size_t before = AllocationCount();
  double sum = 0;
  for (const PlanCase& drawn : cases) {
    for (const MissRule misses : {MissRule::kStall, MissRule::kMask}) {
      const LayerPlanner::Rules rules{.misses = misses};
      sum += planner.Plan(drawn.picks, drawn.costs, rules).cpu.count();
      sum += planner.PlanGreedy(drawn.picks, drawn.costs, rules).cpu.count();
      sum += planner.PlanSimplest(drawn.picks, drawn.costs, rules).cpu.count();
    }
  }
  const size_t after = AllocationCount();
  CHECK(after == before);
  CHECK(before > 0);
  CHECK(sum > 0);
}

TEST_CASE("LaneCosts, PlanCheck, ReadForecast: observing allocates nothing", "[scheduling]") {
  LaneCosts costs{RecordedCosts(GlmRecord())};
  PlanCheck check(PlanCheck::Options{});
  ReadForecast drive(ReadForecast::Options{.deep_service = PlanTime(0.4)});
  const std::vector<LaneCosts::Part> parts{{ExpertKind{0}, 1}, {ExpertKind{0}, 5}};
  std::vector<PlanTime> landed(4);
  const size_t before = AllocationCount();
  for (uint32_t i = 0; i < 1000; ++i) {
    costs.Observe(LaneKind::kCpu, parts, std::chrono::microseconds(100 + i % 7));
    check.Step(std::chrono::microseconds(100 + i % 5));
    drive.Read(PlanTime(i), landed);
  }
  const size_t after = AllocationCount();
  CHECK(after == before);
  CHECK(costs.runs(LaneKind::kCpu, ExpertKind{0}, 0) == 1000);
  CHECK(check.trials() > 10);
}

}  // namespace
}  // namespace moetier
