#ifndef MOETIER_DAEMON_SCHEDULING_LANE_KIND_H_
#define MOETIER_DAEMON_SCHEDULING_LANE_KIND_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace moetier {

// Where an expert is computed: on the CPU from RAM, on the GPU from pinned RAM, on the GPU from
// VRAM.
enum class LaneKind : uint8_t { kCpu, kZeroCopy, kGpu };

inline constexpr size_t kLaneKinds = 3;

// What a lane has done since the start.
struct LaneCounters {
  uint64_t experts = 0;  // runs of one expert over its rows
  uint64_t rows = 0;     // (row, pick) pairs
  uint64_t bytes = 0;    // of records read by the kernels
  std::chrono::nanoseconds busy{0};
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LANE_KIND_H_
