#ifndef MOETIER_DAEMON_SCHEDULING_SLOT_USE_H_
#define MOETIER_DAEMON_SCHEDULING_SLOT_USE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace moetier {

// The slots of one model in one pool.
struct ModelPool {
  ModelId model{};
  PoolId pool{};
  friend auto operator<=>(const ModelPool&, const ModelPool&) = default;
};

// Slots of one size class that stand side by side.
struct SlotRun {
  SizeClass size_class{};
  SlotIndex first{};
  uint32_t count = 0;
};

// How a model's slots in a pool stand; all by size class, empty when it has none there.
struct SlotUse {
  std::vector<uint32_t> active;                          // in use or free for it
  std::vector<std::vector<SlotIndex>> spare;             // retired, ascending
  std::vector<std::pair<SizeClass, SlotIndex>> retired;  // since the last look: in nobody's use
  uint32_t leaving = 0;  // retired, and read by a copy yet: `retired` of a later look
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_SLOT_USE_H_
