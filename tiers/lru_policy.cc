#include "tiers/lru_policy.h"

#include "base/check.h"

namespace moetier {

void LruPolicy::Observe(KeyIndex /*key*/, uint64_t /*step*/, double /*heat*/) {}

void LruPolicy::Admit(SlotIndex slot, KeyIndex /*key*/, Admission admission) {
  if (admission == Admission::kHot) {
    order_.PushHot(slot);
  } else {
    order_.PushCold(slot);
  }
}

void LruPolicy::Touch(SlotIndex slot) {
  order_.Remove(slot);
  order_.PushHot(slot);
}

void LruPolicy::Remove(SlotIndex slot) { order_.Remove(slot); }

SlotIndex LruPolicy::Victim(const EvictableSlots& evictable) {
  SlotIndex slot = order_.coldest();
  while (slot != SlotOrder::kNone && !evictable.Contains(slot)) slot = order_.Hotter(slot);
  MOE_CHECK(slot != SlotOrder::kNone, "a victim was asked for and no slot is evictable");
  return slot;
}

}  // namespace moetier
