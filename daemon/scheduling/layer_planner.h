#ifndef MOETIER_DAEMON_SCHEDULING_LAYER_PLANNER_H_
#define MOETIER_DAEMON_SCHEDULING_LAYER_PLANNER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/scheduling/cost_source.h"
#include "daemon/scheduling/plan_search.h"

namespace moetier {

// Where a picked expert's bytes are when its layer is planned.
enum class PickPlace : uint8_t { kVram, kRam, kNvme, kInFlight };

// One expert that rows of a layer picked.
struct PlanPick {
  PickPlace place = PickPlace::kRam;
  ExpertKind kind{};
  uint32_t rows = 1;
  // Of kNvme and kInFlight: when its bytes will be in RAM, from now; not negative.
  PlanTime arrival{0};
};

// Experts that are not there yet are waited for (exact), or left out (lossy, counted). The
// planner's own kMask is the published model's rule, which leaves out all: for records and what-if.
// The executor masks before it plans (layer_executor_mask.cc).
enum class MissRule : uint8_t { kStall, kMask };

// What lanes are charged for.
//   kAsUsed   a hand-off if the lane runs anything, once a layer; pushes wait for each other
//   kClassic  as the published simulator: the CPU's hand-off if any pick is not in VRAM, the GPU's
//             if any is, zero-copy's never; pushes overlap
enum class Charging : uint8_t { kAsUsed, kClassic };

// What a plan says of one pick. kZeroCopy: the GPU reads it in pinned RAM; kPush: it is copied to
// VRAM once in RAM and computed there.
enum class PickLane : uint8_t { kGpu, kZeroCopy, kPush, kCpu, kMasked };

// What one layer runs, and where. `lanes` is parallel to the picks and lives until the planner's
// next call.
struct LayerPlan {
  std::span<const PickLane> lanes;
  PlanTime cpu{0};  // when the lane ends; 0: it is not used
  PlanTime device{0};
  uint32_t masked = 0;

  // The later lane. kNoLane: some pick has no lane; it stands under kCpu.
  [[nodiscard]] PlanTime end() const { return std::max(cpu, device); }
};

// Decides on which lane each pick of a layer runs, so that the later of CPU and device ends as soon
// as it can. What is in VRAM runs there; what is in RAM runs on the CPU or by zero-copy, the ones
// with most rows first; what arrives runs after those, in order of arrival, on the CPU or after a
// push. Depends on its arguments alone: the daemon and the simulator call the same.
// Threads: one at a time. Memory: all taken at creation. At most `max_picks` picks a call.
class LayerPlanner {
 public:
  struct Rules {
    MissRule misses = MissRule::kStall;
    Charging charging = Charging::kAsUsed;
  };

  explicit LayerPlanner(size_t max_picks);

  // The best plan: exact up to the search's bound on states (see PlanSearch), never worse than
  // PlanGreedy's. Past 64 picks that have a choice, all but the last 64 are placed greedily.
  LayerPlan Plan(std::span<const PlanPick> picks, const CostSource& costs, const Rules& rules);

  // One pass: each pick goes where the later lane ends sooner, the CPU if equal. The published
  // rule.
  LayerPlan PlanGreedy(std::span<const PlanPick> picks, const CostSource& costs,
                       const Rules& rules);

  // What is in VRAM on the GPU, all else on the CPU, or on the device if there is no CPU lane: what
  // no cleverness can get wrong, and what plans are measured against.
  LayerPlan PlanSimplest(std::span<const PlanPick> picks, const CostSource& costs,
                         const Rules& rules);

 private:
  // Reads picks and costs: fixed lanes, jobs_ in the order that lanes run them, clocks and terms.
  void Prepare(std::span<const PlanPick> picks, const CostSource& costs, const Rules& rules);
  void OrderJobs(std::span<const PlanPick> picks);
  void OpenLanes(std::span<const PlanPick> picks, const CostSource& costs, Charging charging);
  // Places jobs_[begin, end) in one pass, from clocks_.
  void PlaceGreedily(size_t begin, size_t end);
  void Run(size_t job, PickLane lane);
  [[nodiscard]] LayerPlan Planned() const;

  const size_t max_picks_;

  // Of the plan being made.
  std::vector<PickLane> lanes_;     // by pick
  std::vector<uint32_t> job_pick_;  // by job: its pick
  std::vector<PlanJob> jobs_;
  LaneClocks clocks_;
  LaneTerms terms_;
  bool zero_copy_used_ = false;
  uint32_t masked_ = 0;

  PlanSearch search_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LAYER_PLANNER_H_
