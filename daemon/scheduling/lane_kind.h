#ifndef MOETIER_DAEMON_SCHEDULING_LANE_KIND_H_
#define MOETIER_DAEMON_SCHEDULING_LANE_KIND_H_

#include <cstddef>
#include <cstdint>

namespace moetier {

// Where an expert is computed: on the CPU from RAM, on the GPU from pinned RAM, on the GPU from
// VRAM.
enum class LaneKind : uint8_t { kCpu, kZeroCopy, kGpu };

inline constexpr size_t kLaneKinds = 3;

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LANE_KIND_H_
