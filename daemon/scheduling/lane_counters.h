#ifndef MOETIER_DAEMON_SCHEDULING_LANE_COUNTERS_H_
#define MOETIER_DAEMON_SCHEDULING_LANE_COUNTERS_H_

#include <chrono>
#include <cstdint>

namespace moetier {

// What a lane has done since the start.
struct LaneCounters {
  uint64_t experts = 0;  // runs of one expert over its rows
  uint64_t rows = 0;     // (row, pick) pairs
  uint64_t bytes = 0;    // of records read by the kernels
  std::chrono::nanoseconds busy{0};
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LANE_COUNTERS_H_
