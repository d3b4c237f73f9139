#ifndef MOETIER_DAEMON_CTL_REPLAY_PLAN_H_
#define MOETIER_DAEMON_CTL_REPLAY_PLAN_H_

#include <cstdint>
#include <vector>

namespace moetier {

// One call of a replay: rows of consecutive tokens through one layer.
struct ReplayCall {
  uint32_t layer = 0;  // index into the golden rows' layers
  uint32_t first_token = 0;
  uint32_t rows = 0;
  friend bool operator==(const ReplayCall&, const ReplayCall&) = default;
};

struct ReplayShape {
  uint32_t tokens = 0;
  uint32_t layers = 0;
  uint32_t rows_per_call = 1;
  uint32_t sessions = 1;
};

// The calls of each session, in the order they are sent: tokens ascending, each batch of rows
// through all layers, batches dealt out to the sessions in turn. Each (token, layer) is in exactly
// one call.
std::vector<std::vector<ReplayCall>> PlanReplay(const ReplayShape& shape);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_REPLAY_PLAN_H_
