#ifndef MOETIER_DAEMON_SCHEDULING_RECORDED_COSTS_H_
#define MOETIER_DAEMON_SCHEDULING_RECORDED_COSTS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/scheduling/cost_source.h"

namespace moetier {

// Constants, as an engine's and a box's records state them: for what-if, for published figures, and
// for a daemon that has not measured yet. A value.
class RecordedCosts final : public CostSource {
 public:
  // One expert on one lane.
  struct ExpertRecord {
    PlanTime first_row = kNoLane;
    PlanTime further_row{0};
  };
  struct KindRecord {
    std::array<ExpertRecord, kLaneKinds> lanes;  // by LaneKind; those not set do not exist
    PlanTime push{0};
  };
  struct Record {
    std::array<PlanTime, kLaneKinds> hand_off{};  // by LaneKind
    std::vector<KindRecord> kinds;                // by ExpertKind
  };

  explicit RecordedCosts(Record record);

  [[nodiscard]] PlanTime HandOff(LaneKind lane) const override;
  [[nodiscard]] PlanTime Expert(LaneKind lane, ExpertKind kind, uint32_t rows) const override;
  [[nodiscard]] PlanTime Push(ExpertKind kind) const override;

  [[nodiscard]] size_t kind_count() const { return record_.kinds.size(); }

 private:
  Record record_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_RECORDED_COSTS_H_
