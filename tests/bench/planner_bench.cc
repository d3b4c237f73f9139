// How long does a layer's plan take, and how good is it? First the plans of drawn layers against
// brute force (a plan worse than 2 % ends the program with 1), then the time of a plan: other
// layers lie between two plans of one, and the best of its times counts, so that a busy machine
// does not spoil it. Printed as the mean over the layers, and what one in a hundred exceeds.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/plan_oracle.h"

namespace {

using namespace moetier;  // NOLINT: a program of one file

constexpr uint32_t kCases = 2000;
constexpr uint32_t kLargeCases = 200;
constexpr uint32_t kRounds = 25;
constexpr double kAllowed = 1.02;

std::vector<PlanCase> DrawCases(const PlanCaseOptions& options) {
  std::vector<PlanCase> cases;
  Random random(1);
  const uint32_t count = options.picks <= 12 ? kCases : kLargeCases;
  for (uint32_t i = 0; i < count; ++i) cases.push_back(DrawPlanCase(random, options));
  return cases;
}

struct Quality {
  double worst_percent = 0;   // over brute force
  double greedy_percent = 0;  // the greedy rule's mean over the plans'
};

Quality Compare(LayerPlanner& planner, const std::vector<PlanCase>& cases, uint32_t compared) {
  Quality quality;
  uint32_t finite = 0;
  for (uint32_t i = 0; i < compared; ++i) {
    const auto& [costs, picks] = cases[i];
    const PlanTime end = planner.Plan(picks, costs, {}).end();
    const PlanTime greedy = planner.PlanGreedy(picks, costs, {}).end();
    if (end == kNoLane || end.count() == 0) continue;
    ++finite;
    quality.worst_percent =
        std::max(quality.worst_percent, 100 * (end / BestEnd(picks, costs, {}) - 1));
    quality.greedy_percent += 100 * (greedy / end - 1);
  }
  quality.greedy_percent /= finite;
  return quality;
}

struct Speed {
  double mean_ns = 0;
  double slow_ns = 0;  // one layer in a hundred is slower
};

Speed MeasureSpeed(LayerPlanner& planner, const std::vector<PlanCase>& cases) {
  std::vector<double> best(cases.size(), std::numeric_limits<double>::infinity());
  double sum = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& [costs, picks] = cases[i];
      const auto begin = std::chrono::steady_clock::now();
      sum += planner.Plan(picks, costs, {}).cpu.count();
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      best[i] = std::min(best[i], took.count());
    }
  }
  if (sum < 0) fmt::print("impossible\n");  // so that no plan is left out
  std::sort(best.begin(), best.end());
  const double total = std::accumulate(best.begin(), best.end(), 0.0);
  return {.mean_ns = total / static_cast<double>(best.size()),
          .slow_ns = best[best.size() * 99 / 100]};
}

}  // namespace

int main() {
  struct Row {
    const char* name;
    PlanCaseOptions options;
    uint32_t compared;  // brute force takes 2^picks
  };
  const Row rows[] = {
      {"4 picks, one row each", {.picks = 4, .equal_costs = true}, kCases},
      {"8 picks, one row each", {.picks = 8, .equal_costs = true}, kCases},
      {"8 picks, rows and kinds mixed", {.picks = 8}, kCases},
      {"10 picks, one row each", {.picks = 10, .equal_costs = true}, 400},
      {"12 picks, rows and kinds mixed", {.picks = 12}, 100},
      {"64 picks, rows and kinds mixed", {.picks = 64}, 0},
      {"256 picks, rows and kinds mixed", {.picks = 256}, 0},
  };
  LayerPlanner planner(256);
  bool good = true;
  for (const Row& row : rows) {
    const std::vector<PlanCase> cases = DrawCases(row.options);
    fmt::print("{:32}", row.name);
    if (row.compared > 0) {
      const Quality quality = Compare(planner, cases, row.compared);
      good = good && quality.worst_percent <= 100 * (kAllowed - 1);
      fmt::print(" worst {:.4f} % over brute force, greedy {:4.1f} % over the plan,",
                 quality.worst_percent, quality.greedy_percent);
    }
    const Speed speed = MeasureSpeed(planner, cases);
    fmt::print(" {:6.0f} ns a plan, 1 % above {:.0f}\n", speed.mean_ns, speed.slow_ns);
  }
  return good ? 0 : 1;
}
