#include "daemon/scheduling/read_forecast.h"

#include <algorithm>

namespace moetier {

void ReadForecast::Read(PlanTime now, std::span<PlanTime> landed) {
  const PlanTime service = landed.size() > 1 ? options_.deep_service : options_.lone_service;
  for (PlanTime& at : landed) {
    const bool idle = now > free_at_ || reads_ == 0;
    at = std::max(now, free_at_);
    if (idle) at += options_.latency;
    at += service;
    free_at_ = at;
    ++reads_;
  }
}

}  // namespace moetier
