#include "daemon/scheduling/recorded_costs.h"

#include <utility>

#include "base/ids.h"

namespace moetier {

RecordedCosts::RecordedCosts(Record record) : record_(std::move(record)) {}

PlanTime RecordedCosts::HandOff(LaneKind lane) const { return record_.hand_off[Raw(lane)]; }

PlanTime RecordedCosts::Expert(LaneKind lane, ExpertKind kind, uint32_t rows) const {
  const ExpertRecord& record = record_.kinds[Raw(kind)].lanes[Raw(lane)];
  return record.first_row + record.further_row * (rows - 1);
}

PlanTime RecordedCosts::Push(ExpertKind kind) const { return record_.kinds[Raw(kind)].push; }

}  // namespace moetier
