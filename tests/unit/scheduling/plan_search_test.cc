#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "tests/support/plan_oracle.h"

namespace moetier {
namespace {

using Rules = LayerPlanner::Rules;

constexpr size_t kMaxPicks = 600;
// Sums of the same costs in another order.
constexpr double kRounding = 1e-12;

// Draws the case, and rules with it.
struct SeededCase {
  SeededCase(uint64_t seed, PlanCaseOptions options) : random(seed) {
    rules.charging = random.Percent(50) ? Charging::kAsUsed : Charging::kClassic;
    rules.misses = random.Percent(10) ? MissRule::kMask : MissRule::kStall;
    plan_case = std::make_unique<PlanCase>(DrawPlanCase(random, options));
  }
  Random random;
  Rules rules;
  std::unique_ptr<PlanCase> plan_case;
};

// The plan's own clocks are those of its lanes, and it places what has no choice where it must.
void CheckHonest(const SeededCase& seeded, const LayerPlan& plan) {
  const auto& [costs, picks] = *seeded.plan_case;
  REQUIRE(plan.lanes.size() == picks.size());
  uint32_t masked = 0;
  for (size_t i = 0; i < picks.size(); ++i) {
    const bool resident = picks[i].place == PickPlace::kVram;
    REQUIRE((plan.lanes[i] == PickLane::kGpu) == resident);
    const bool in_ram = picks[i].place == PickPlace::kRam;
    if (plan.lanes[i] == PickLane::kZeroCopy) REQUIRE(in_ram);
    if (plan.lanes[i] == PickLane::kPush) REQUIRE_FALSE(in_ram);
    if (plan.lanes[i] == PickLane::kMasked) {
      REQUIRE_FALSE(in_ram);
      REQUIRE(seeded.rules.misses == MissRule::kMask);
      ++masked;
    }
  }
  REQUIRE(plan.masked == masked);
  const PlanTime told = EndOf(picks, costs, seeded.rules, plan.lanes);
  if (told == kNoLane) {
    REQUIRE(plan.end() == kNoLane);
  } else {
    REQUIRE(std::abs((plan.end() - told).count()) <= kRounding * told.count());
  }
}

// 1 + what the plan is worse than brute force by.
double Excess(PlanTime end, PlanTime best) {
  if (end == best) return 1;
  return end / best;
}

TEST_CASE("LayerPlanner: plans of equal costs are as good as brute force's", "[scheduling]") {
  LayerPlanner planner(kMaxPicks);
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    CAPTURE(seed);
    Random size(seed);
    const SeededCase seeded(seed, {.picks = size.Between(0, 10), .equal_costs = true});
    const auto& [costs, picks] = *seeded.plan_case;
    const LayerPlan plan = planner.Plan(picks, costs, seeded.rules);
    CheckHonest(seeded, plan);
    REQUIRE(Excess(plan.end(), BestEnd(picks, costs, seeded.rules)) <= 1 + kRounding);
  }
}

TEST_CASE("LayerPlanner: plans of up to 12 picks are within 2 % of brute force's", "[scheduling]") {
  LayerPlanner planner(kMaxPicks);
  double worst = 1;
  uint32_t better_than_greedy = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    CAPTURE(seed);
    Random size(seed);
    const uint32_t picks_drawn = seed % 20 == 0 ? 12 : size.Between(1, 9);
    const SeededCase seeded(seed, {.picks = picks_drawn});
    const auto& [costs, picks] = *seeded.plan_case;
    const LayerPlan plan = planner.Plan(picks, costs, seeded.rules);
    CheckHonest(seeded, plan);
    const double excess = Excess(plan.end(), BestEnd(picks, costs, seeded.rules));
    worst = std::max(worst, excess);
    REQUIRE(excess <= 1.02);
    const PlanTime end = plan.end();
    const PlanTime greedy = planner.PlanGreedy(picks, costs, seeded.rules).end();
    if (greedy > end * (1 + kRounding)) ++better_than_greedy;
  }
  CHECK(worst <= 1 + kRounding);  // so far the bound on states has never cost anything here
  CHECK(better_than_greedy > 400);
}

TEST_CASE("LayerPlanner: no plan is worse than the greedy rule's or the simplest, at any size",
          "[scheduling]") {
  LayerPlanner planner(kMaxPicks);
  uint32_t better_than_greedy = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    Random size(seed);
    const uint32_t picks_drawn = seed % 10 == 0 ? size.Between(65, 600) : size.Between(0, 64);
    const SeededCase seeded(seed, {.picks = picks_drawn, .equal_costs = size.Percent(30)});
    const auto& [costs, picks] = *seeded.plan_case;
    const LayerPlan plan = planner.Plan(picks, costs, seeded.rules);
    CheckHonest(seeded, plan);
    const PlanTime end = plan.end();
    const LayerPlan greedy = planner.PlanGreedy(picks, costs, seeded.rules);
    CheckHonest(seeded, greedy);
    REQUIRE(end <= greedy.end());
    if (end < greedy.end()) ++better_than_greedy;
    const LayerPlan simplest = planner.PlanSimplest(picks, costs, seeded.rules);
    CheckHonest(seeded, simplest);
    REQUIRE(end.count() <= simplest.end().count() * (1 + kRounding));
  }
  CHECK(better_than_greedy > 300);
}

TEST_CASE("LayerPlanner: the same layer gets the same plan, whatever was planned before",
          "[scheduling]") {
  LayerPlanner used(kMaxPicks);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const SeededCase seeded(seed, {.picks = static_cast<uint32_t>(seed)});
    const auto& [costs, picks] = *seeded.plan_case;
    LayerPlanner fresh(kMaxPicks);
    const LayerPlan expected = fresh.Plan(picks, costs, seeded.rules);
    const LayerPlan plan = used.Plan(picks, costs, seeded.rules);
    REQUIRE(std::equal(plan.lanes.begin(), plan.lanes.end(), expected.lanes.begin(),
                       expected.lanes.end()));
    REQUIRE(plan.end() == expected.end());
  }
}

}  // namespace
}  // namespace moetier
