#include "daemon/ctl/replay_plan.h"

#include <algorithm>

#include "base/check.h"

namespace moetier {

std::vector<std::vector<ReplayCall>> PlanReplay(const ReplayShape& shape) {
  MOE_CHECK(shape.rows_per_call > 0 && shape.sessions > 0, "{} rows a call, {} sessions",
            shape.rows_per_call, shape.sessions);
  std::vector<std::vector<ReplayCall>> plan(shape.sessions);
  uint32_t session = 0;
  for (uint32_t token = 0; token < shape.tokens;) {
    const uint32_t rows = std::min(shape.rows_per_call, shape.tokens - token);
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
      plan[session].push_back({.layer = layer, .first_token = token, .rows = rows});
    }
    token += rows;
    session = (session + 1) % shape.sessions;
  }
  return plan;
}

}  // namespace moetier
