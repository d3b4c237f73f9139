#ifndef MOETIER_TIERS_SLOT_MEMORY_H_
#define MOETIER_TIERS_SLOT_MEMORY_H_

#include <cstdint>

#include "base/ids.h"
#include "base/result.h"

namespace moetier {

// Memory of one (model, pool) that comes and goes slot by slot while other slots are in use.
// Threads: any may ask; GiveBack and Take are one thread's at a time. Who may use a slot's bytes is
//          the ledger's matter.
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  // Slots that have addresses, with or without memory.
  [[nodiscard]] virtual uint32_t Places(SizeClass size_class) const = 0;
  // The slot, which has memory, loses it: nobody has its bytes, and nobody uses it before it is
  // taken again.
  virtual void GiveBack(SizeClass size_class, SlotIndex slot) = 0;
  // Memory for `count` slots from `first` on, which have none. An error when it cannot be had, with
  // nothing taken.
  virtual Status Take(SizeClass size_class, SlotIndex first, uint32_t count) = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_SLOT_MEMORY_H_
