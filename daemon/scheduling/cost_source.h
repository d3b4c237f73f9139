#ifndef MOETIER_DAEMON_SCHEDULING_COST_SOURCE_H_
#define MOETIER_DAEMON_SCHEDULING_COST_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <limits>

#include "daemon/scheduling/lane_kind.h"

namespace moetier {

// A time of a plan. Floating milliseconds, as published records have them, so that published
// figures come out to the digit.
using PlanTime = std::chrono::duration<double, std::milli>;

// What a lane that does not exist costs.
inline constexpr PlanTime kNoLane{std::numeric_limits<double>::infinity()};

// Experts of one shape and weight types: an index into the model's list of them.
enum class ExpertKind : uint8_t {};

// What the lanes of one model cost. Times are not negative and never NaN.
class CostSource {
 public:
  virtual ~CostSource() = default;

  // Once a layer in which the lane computes anything.
  [[nodiscard]] virtual PlanTime HandOff(LaneKind lane) const = 0;
  // One expert over `rows` rows, at least 1. kNoLane when there is no such lane.
  [[nodiscard]] virtual PlanTime Expert(LaneKind lane, ExpertKind kind, uint32_t rows) const = 0;
  // The copy of one record from RAM to VRAM.
  [[nodiscard]] virtual PlanTime Push(ExpertKind kind) const = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_COST_SOURCE_H_
