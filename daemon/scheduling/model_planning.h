#ifndef MOETIER_DAEMON_SCHEDULING_MODEL_PLANNING_H_
#define MOETIER_DAEMON_SCHEDULING_MODEL_PLANNING_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "daemon/scheduling/lane_costs.h"
#include "daemon/scheduling/layer_planner.h"
#include "daemon/scheduling/plan_check.h"
#include "daemon/scheduling/read_forecast.h"
#include "tiers/device/device.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// Plans one model's layers over the lanes of a device and of the CPU: planner, costs, forecast of
// the drive, and the check that planning pays. A kind of expert is a size class: what a lane takes
// follows from the bytes.
// Costs begin at what a good box could do, so that every lane is tried, and come to what the lanes
// are measured to do.
// Threads: the executor's alone. Memory: all taken at creation, but for the first large plans.
class ModelPlanning {
 public:
  // What a model has of a device beside the CPU's lane.
  struct Lanes {
    bool gpu = true;        // slots in its memory
    bool zero_copy = true;  // it reads the RAM slots over its link
  };
  ModelPlanning(const ModelGeometry& geometry, const DeviceDescription& device, Lanes lanes);

  static ExpertKind KindOf(SizeClass size_class) { return ExpertKind{Raw(size_class)}; }

  // kDecode: one call of one row, by which planning is judged. kOther: not.
  enum class Call : uint8_t { kDecode, kOther };
  struct Choice {
    std::span<const PickLane> lanes;  // parallel to the picks, until the next Place
    bool judged = false;              // tell Took how long the call took
  };
  // Where each pick runs. Fills in when those that are not in RAM arrive; the time never falls.
  Choice Place(std::span<PlanPick> picks, Call call, TimePoint now);

  // Where picks would run that nobody is going to run.
  std::span<const PickLane> Foresee(std::span<PlanPick> picks, TimePoint now);

  // True when the arm of choice changed.
  bool Took(std::chrono::nanoseconds call) { return check_.Step(call); }

  // A lane computed `parts` in one run; `took` with the hand-off.
  void Observe(LaneKind lane, std::span<const LaneCosts::Part> parts,
               std::chrono::nanoseconds took) {
    costs_.Observe(lane, parts, took);
  }
  // The same of a device, which does not see its hand-off.
  void ObserveDevice(LaneKind lane, std::span<const LaneCosts::Part> parts,
                     std::chrono::nanoseconds busy);

  [[nodiscard]] const PlanCheck& check() const { return check_; }
  [[nodiscard]] const LaneCosts& costs() const { return costs_; }

 private:
  LayerPlanner planner_;
  LaneCosts costs_;
  ReadForecast drive_;
  PlanCheck check_;
  TimePoint begin_{};  // of the drive's time
  std::vector<PickLane> planned_;
  std::vector<PlanTime> landed_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_MODEL_PLANNING_H_
