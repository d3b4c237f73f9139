#include "daemon/scheduling/layer_planner.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "daemon/scheduling/read_forecast.h"
#include "tests/support/plan_oracle.h"

namespace moetier {
namespace {

using Rules = LayerPlanner::Rules;

constexpr Rules kClassic{.charging = Charging::kClassic};
constexpr size_t kMaxPicks = 64;

PlanPick InVram(uint32_t rows = 1) { return {.place = PickPlace::kVram, .rows = rows}; }
PlanPick InRam(uint32_t rows = 1) { return {.place = PickPlace::kRam, .rows = rows}; }
PlanPick InFlight(double arrival) {
  return {.place = PickPlace::kInFlight, .arrival = PlanTime(arrival)};
}

// `count` picks on NVMe, read now as one batch at the published drive: a GLM record at 24.0 GB/s
// deep and 12.6 alone, 0.12 ms when idle.
std::vector<PlanPick> OnNvme(size_t count) {
  ReadForecast drive({.deep_service = PlanTime(9474048 / 24.0e6),
                      .lone_service = PlanTime(9474048 / 12.6e6),
                      .latency = PlanTime(0.12)});
  std::vector<PlanTime> landed(count);
  drive.Read(PlanTime(1), landed);
  std::vector<PlanPick> picks;
  for (const PlanTime at : landed) {
    picks.push_back({.place = PickPlace::kNvme, .arrival = at - PlanTime(1)});
  }
  return picks;
}

std::vector<PlanPick> operator+(std::vector<PlanPick> left, const std::vector<PlanPick>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// One letter a pick: g GPU, z zero-copy, p push, c CPU, m masked.
std::string Lanes(const LayerPlan& plan) {
  std::string text;
  for (const PickLane lane : plan.lanes) text += "gzpcm"[static_cast<size_t>(lane)];
  return text;
}

struct PublishedVector {
  const char* name;
  std::vector<PlanPick> picks;
  const char* lanes;
  double device;
  double cpu;
  double end;
};

// Computed by an independent program in IEEE doubles from the published rule and records (GLM on a
// 3090); printed to six decimals.
std::vector<PublishedVector> PublishedVectors() {
  const std::vector<PlanPick> vram{InVram()};
  const std::vector<PlanPick> ram{InRam()};
  return {
      {"one in VRAM, three in RAM", vram + ram + ram + ram, "gccc", 0.193, 0.457, 0.457},
      {"two in VRAM, four in RAM", vram + vram + ram + ram + ram + ram, "ggcccc", 0.216, 0.561,
       0.561},
      {"one of each, two on NVMe", vram + ram + OnNvme(2), "gccc", 0.193, 1.013504, 1.013504},
      {"four on NVMe", ram + OnNvme(4), "ccccc", 0, 1.803008, 1.803008},
      // Planned at 1.0; one read landed at 0.9, one lands at 1.5.
      {"two in flight", vram + std::vector{InFlight(0), InFlight(0.5)}, "gcc", 0.193, 0.604, 0.604},
  };
}

TEST_CASE("LayerPlanner: the published rule gives the published lanes and times", "[scheduling]") {
  const RecordedCosts costs(GlmRecord());
  LayerPlanner planner(kMaxPicks);
  for (const PublishedVector& vector : PublishedVectors()) {
    CAPTURE(vector.name);
    const LayerPlan plan = planner.PlanGreedy(vector.picks, costs, kClassic);
    CHECK(Lanes(plan) == vector.lanes);
    CHECK(plan.device.count() == Approx(vector.device).margin(5e-7).epsilon(0));
    CHECK(plan.cpu.count() == Approx(vector.cpu).margin(5e-7).epsilon(0));
    CHECK(plan.end().count() == Approx(vector.end).margin(5e-7).epsilon(0));
  }
}

TEST_CASE("LayerPlanner: a published vector with a slow CPU and no zero-copy pushes every miss",
          "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  record.kinds[0].lanes[0].first_row = PlanTime(0.9);
  record.kinds[0].lanes[1] = {};
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks = OnNvme(3);
  const LayerPlan plan = planner.PlanGreedy(picks, costs, kClassic);
  CHECK(Lanes(plan) == "ppp");
  CHECK(plan.device.count() == Approx(1.730407).margin(5e-7).epsilon(0));
  CHECK(plan.cpu.count() == 0.145);
  CHECK(plan.end().count() == Approx(1.730407).margin(5e-7).epsilon(0));
}

TEST_CASE("LayerPlanner: a published vector with a mask charges the CPU's hand-off for nothing",
          "[scheduling]") {
  const RecordedCosts costs(GlmRecord());
  LayerPlanner planner(kMaxPicks);
  Rules rules = kClassic;
  rules.misses = MissRule::kMask;
  const std::vector<PlanPick> picks = OnNvme(1);
  const LayerPlan classic = planner.PlanGreedy(picks, costs, rules);
  CHECK(Lanes(classic) == "m");
  CHECK(classic.device.count() == 0);
  CHECK(classic.cpu.count() == 0.145);
  rules.charging = Charging::kAsUsed;
  CHECK(planner.Plan(picks, costs, rules).end().count() == 0);
}

TEST_CASE("LayerPlanner: no published vector is planned better than the published rule does",
          "[scheduling]") {
  const RecordedCosts costs(GlmRecord());
  LayerPlanner planner(kMaxPicks);
  for (const PublishedVector& vector : PublishedVectors()) {
    CAPTURE(vector.name);
    const LayerPlan plan = planner.Plan(vector.picks, costs, kClassic);
    CHECK(plan.end().count() == Approx(vector.end).margin(5e-7).epsilon(0));
    CHECK(plan.end() == BestEnd(vector.picks, costs, kClassic));
  }
}

TEST_CASE("LayerPlanner: it finds a split that the greedy rule misses", "[scheduling]") {
  RecordedCosts::Record record;
  record.kinds.resize(1);
  record.kinds[0].lanes[0] = {PlanTime(1), PlanTime(1)};  // a row costs 1 on either lane
  record.kinds[0].lanes[1] = {PlanTime(1), PlanTime(1)};
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  // 3 and 3 against 2, 2 and 2; the most rows first gives 3 + 2 + 2 against 3 + 2.
  const std::vector<PlanPick> picks{InRam(3), InRam(3), InRam(2), InRam(2), InRam(2)};
  CHECK(planner.PlanGreedy(picks, costs, {}).end() == PlanTime(7));
  CHECK(planner.Plan(picks, costs, {}).end() == PlanTime(6));
}

TEST_CASE("LayerPlanner: a hand-off is charged to lanes that run something, once", "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  record.hand_off[1] = PlanTime(0.01);
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> resident{InVram(), InVram()};
  const LayerPlan vram_only = planner.Plan(resident, costs, {});
  CHECK(vram_only.cpu == PlanTime(0));
  CHECK(vram_only.device.count() == Approx(0.17 + 2 * 0.023));
  const std::vector<PlanPick> two{InRam(), InRam()};
  const LayerPlan cpu_only = planner.PlanSimplest(two, costs, {});
  CHECK(cpu_only.device == PlanTime(0));
  CHECK(cpu_only.cpu.count() == Approx(0.145 + 2 * 0.104));
  record.kinds[0].lanes[0] = {};
  const LayerPlan zero_copy_only = planner.Plan(two, RecordedCosts(record), {});
  CHECK(Lanes(zero_copy_only) == "zz");
  CHECK(zero_copy_only.cpu == PlanTime(0));
  CHECK(zero_copy_only.device.count() == Approx(0.17 + 0.01 + 2 * 0.38));
}

TEST_CASE("LayerPlanner: a dear hand-off keeps the CPU out of a layer that can do without",
          "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  record.hand_off[0] = PlanTime(2);
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks{InVram(), InRam(), InRam()};
  const LayerPlan plan = planner.Plan(picks, costs, {});
  CHECK(Lanes(plan) == "gzz");
  CHECK(plan.cpu == PlanTime(0));
}

TEST_CASE("LayerPlanner: pushes wait for each other on the one link", "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  record.kinds[0].lanes[0] = {};
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks{InFlight(0), InFlight(0), InFlight(0)};
  const double push = record.kinds[0].push.count();
  CHECK(planner.Plan(picks, costs, {}).end().count() == Approx(3 * push + 0.023));
  CHECK(planner.Plan(picks, costs, kClassic).end().count() == Approx(push + 3 * 0.023));
}

TEST_CASE("LayerPlanner: a mask leaves out what is not there yet, and counts it", "[scheduling]") {
  const RecordedCosts costs(GlmRecord());
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks =
      std::vector{InVram(), InRam(), InFlight(0.2)} + OnNvme(2) + std::vector{InRam()};
  const LayerPlan masked = planner.Plan(picks, costs, {.misses = MissRule::kMask});
  CHECK(Lanes(masked) == "gcmmmc");
  CHECK(masked.masked == 3);
  CHECK(masked.end().count() == Approx(0.145 + 2 * 0.104));
  const LayerPlan stalled = planner.Plan(picks, costs, {});
  CHECK(stalled.masked == 0);
  CHECK(Lanes(stalled).find('m') == std::string::npos);
}

TEST_CASE("LayerPlanner: a layer without picks takes no time", "[scheduling]") {
  const RecordedCosts costs(GlmRecord());
  LayerPlanner planner(0);
  for (const Charging charging : {Charging::kAsUsed, Charging::kClassic}) {
    const LayerPlan plan = planner.Plan({}, costs, {.charging = charging});
    CHECK(plan.lanes.empty());
    CHECK(plan.end() == PlanTime(0));
  }
}

TEST_CASE("LayerPlanner: a box with the CPU alone runs everything there", "[scheduling]") {
  RecordedCosts::Record record;
  record.kinds.resize(1);
  record.kinds[0].lanes[0] = {PlanTime(0.1), PlanTime(0.02)};
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks{InRam(3), InRam(), InFlight(1), InRam()};
  const LayerPlan plan = planner.Plan(picks, costs, {});
  CHECK(Lanes(plan) == "cccc");
  CHECK(plan.end().count() == Approx(1.1));
  CHECK(Lanes(planner.PlanSimplest(picks, costs, {})) == "cccc");
}

TEST_CASE("LayerPlanner: a pick that no lane can run makes the plan never end", "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  record.kinds[0].lanes[0] = {};
  record.kinds[0].lanes[1] = {};
  const RecordedCosts costs(record);
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks{InVram(), InRam(), InFlight(0.1)};
  for (const LayerPlan& plan :
       {planner.Plan(picks, costs, {}), planner.PlanGreedy(picks, costs, {})}) {
    CHECK(plan.end() == kNoLane);
    CHECK(plan.lanes[1] == PickLane::kCpu);
  }
  CHECK(planner.Plan(std::vector{InVram()}, costs, {}).end().count() == Approx(0.193));
}

TEST_CASE("LayerPlanner: the simplest plan leaves the CPU out only where there is none",
          "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  LayerPlanner planner(kMaxPicks);
  const std::vector<PlanPick> picks{InVram(), InRam(), InFlight(0.1)};
  CHECK(Lanes(planner.PlanSimplest(picks, RecordedCosts(record), {})) == "gcc");
  record.kinds[0].lanes[0] = {};
  CHECK(Lanes(planner.PlanSimplest(picks, RecordedCosts(record), {})) == "gzp");
}

}  // namespace
}  // namespace moetier
