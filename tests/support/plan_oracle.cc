#include "tests/support/plan_oracle.h"

#include <algorithm>

namespace moetier {
namespace {

PlanTime Draw(Random& random, uint32_t low_us, uint32_t high_us) {
  return PlanTime(random.Between(low_us, high_us)) / 1000;
}

bool Arrives(const PlanPick& pick) {
  return pick.place == PickPlace::kNvme || pick.place == PickPlace::kInFlight;
}

// The picks under `lane`, in the order that it runs them.
std::vector<PlanPick> InOrder(std::span<const PlanPick> picks, std::span<const PickLane> lanes,
                              PickLane lane) {
  std::vector<PlanPick> order;
  for (size_t i = 0; i < picks.size(); ++i) {
    if (lanes[i] == lane) order.push_back(picks[i]);
  }
  std::stable_sort(order.begin(), order.end(), [](const PlanPick& a, const PlanPick& b) {
    const PlanTime a_ready = Arrives(a) ? a.arrival : PlanTime(-1);
    const PlanTime b_ready = Arrives(b) ? b.arrival : PlanTime(-1);
    return a_ready < b_ready;
  });
  return order;
}

PlanTime EndOfCpu(const std::vector<PlanPick>& picks, const CostSource& costs, PlanTime hand_off) {
  PlanTime clock = hand_off;
  for (const PlanPick& pick : picks) {
    if (Arrives(pick)) clock = std::max(clock, pick.arrival);
    clock += costs.Expert(LaneKind::kCpu, pick.kind, pick.rows);
  }
  return clock;
}

PickLane DeviceLane(const PlanPick& pick) {
  return Arrives(pick) ? PickLane::kPush : PickLane::kZeroCopy;
}

}  // namespace

PlanCase DrawPlanCase(Random& random, const PlanCaseOptions& options) {
  RecordedCosts::Record record;
  if (random.Percent(75)) {
    record.hand_off = {Draw(random, 0, 300), Draw(random, 0, 80), Draw(random, 0, 250)};
  }
  record.kinds.resize(options.equal_costs ? 1 : 3);
  const bool no_cpu = options.lanes_missing && random.Percent(5);
  const bool no_zero_copy = options.lanes_missing && random.Percent(10);
  for (RecordedCosts::KindRecord& kind : record.kinds) {
    if (!no_cpu) kind.lanes[0] = {Draw(random, 40, 400), Draw(random, 0, 100)};
    if (!no_zero_copy) kind.lanes[1] = {Draw(random, 40, 600), Draw(random, 0, 100)};
    kind.lanes[2] = {Draw(random, 1, 60), Draw(random, 0, 30)};
    kind.push = Draw(random, 20, 600);
  }
  const uint32_t in_vram = random.Between(0, 60);  // percent
  const uint32_t in_ram = random.Between(0, 100);  // of the rest
  PlanCase drawn{.costs = RecordedCosts(std::move(record)), .picks = {}};
  for (uint32_t i = 0; i < options.picks; ++i) {
    PlanPick pick;
    pick.rows = options.equal_costs ? 1 : random.Between(1, 6);
    pick.kind = ExpertKind{static_cast<uint8_t>(random.Below(drawn.costs.kind_count()))};
    if (random.Percent(in_vram)) {
      pick.place = PickPlace::kVram;
    } else if (!random.Percent(in_ram)) {
      pick.place = random.Percent(30) ? PickPlace::kInFlight : PickPlace::kNvme;
      pick.arrival = Draw(random, 0, 2000);
    }
    drawn.picks.push_back(pick);
  }
  return drawn;
}

RecordedCosts::Record GlmRecord() {
  RecordedCosts::Record record;
  record.hand_off = {PlanTime(0.145), PlanTime(0), PlanTime(0.17)};
  record.kinds.resize(1);
  record.kinds[0].lanes = {{{PlanTime(0.104), PlanTime(0.040)},
                            {PlanTime(0.38), PlanTime(0)},
                            {PlanTime(0.023), PlanTime(0)}}};
  record.kinds[0].push = PlanTime(9474048 / (23.5 * 1e6));
  return record;
}

PlanTime EndOf(std::span<const PlanPick> picks, const CostSource& costs,
               const LayerPlanner::Rules& rules, std::span<const PickLane> lanes) {
  const std::vector<PlanPick> on_cpu = InOrder(picks, lanes, PickLane::kCpu);
  const std::vector<PlanPick> resident = InOrder(picks, lanes, PickLane::kGpu);
  const std::vector<PlanPick> zero_copy = InOrder(picks, lanes, PickLane::kZeroCopy);
  const std::vector<PlanPick> pushed = InOrder(picks, lanes, PickLane::kPush);
  const bool classic = rules.charging == Charging::kClassic;

  const bool cpu_charged = classic ? resident.size() < picks.size() : !on_cpu.empty();
  const PlanTime cpu =
      EndOfCpu(on_cpu, costs, cpu_charged ? costs.HandOff(LaneKind::kCpu) : PlanTime(0));

  PlanTime device{0};
  const bool device_used = !resident.empty() || !zero_copy.empty() || !pushed.empty();
  if (classic ? !resident.empty() : device_used) device += costs.HandOff(LaneKind::kGpu);
  if (!classic && !zero_copy.empty()) device += costs.HandOff(LaneKind::kZeroCopy);
  for (const PlanPick& pick : resident) {
    device += costs.Expert(LaneKind::kGpu, pick.kind, pick.rows);
  }
  for (const PlanPick& pick : zero_copy) {
    device += costs.Expert(LaneKind::kZeroCopy, pick.kind, pick.rows);
  }
  PlanTime copied{0};
  for (const PlanPick& pick : pushed) {
    const PlanTime start = classic ? pick.arrival : std::max(copied, pick.arrival);
    copied = start + costs.Push(pick.kind);
    device = std::max(device, copied) + costs.Expert(LaneKind::kGpu, pick.kind, pick.rows);
  }
  return std::max(cpu, device);
}

PlanTime BestEnd(std::span<const PlanPick> picks, const CostSource& costs,
                 const LayerPlanner::Rules& rules) {
  std::vector<PickLane> lanes(picks.size());
  std::vector<size_t> free;
  for (size_t i = 0; i < picks.size(); ++i) {
    if (picks[i].place == PickPlace::kVram) {
      lanes[i] = PickLane::kGpu;
    } else if (Arrives(picks[i]) && rules.misses == MissRule::kMask) {
      lanes[i] = PickLane::kMasked;
    } else {
      free.push_back(i);
    }
  }
  PlanTime best = kNoLane;
  for (uint64_t choice = 0; choice < uint64_t{1} << free.size(); ++choice) {
    for (size_t bit = 0; bit < free.size(); ++bit) {
      const bool on_device = (choice >> bit & 1) != 0;
      lanes[free[bit]] = on_device ? DeviceLane(picks[free[bit]]) : PickLane::kCpu;
    }
    best = std::min(best, EndOf(picks, costs, rules, lanes));
  }
  return best;
}

}  // namespace moetier
