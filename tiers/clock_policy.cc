#include "tiers/clock_policy.h"

#include "base/check.h"

namespace moetier {

void ClockPolicy::Observe(KeyIndex /*key*/, uint64_t /*step*/, double /*heat*/) {}

void ClockPolicy::Admit(SlotIndex slot, KeyIndex /*key*/, Admission admission) {
  MOE_CHECK(!slots_[Raw(slot)].present, "slot {} is in the order already", Raw(slot));
  slots_[Raw(slot)] = {.present = true, .used = admission == Admission::kHot};
}

void ClockPolicy::Touch(SlotIndex slot) {
  MOE_CHECK(slots_[Raw(slot)].present, "slot {} is not in the order", Raw(slot));
  slots_[Raw(slot)].used = true;
}

void ClockPolicy::Remove(SlotIndex slot) {
  MOE_CHECK(slots_[Raw(slot)].present, "slot {} is not in the order", Raw(slot));
  slots_[Raw(slot)] = {};
}

SlotIndex ClockPolicy::Victim(const EvictableSlots& evictable) {
  // The first round clears the marks of all evictable slots, so the second finds one.
  for (size_t look = 0; look < 2 * slots_.size(); ++look) {
    const SlotIndex slot{hand_};
    Mark& mark = slots_[hand_];
    hand_ = hand_ + 1 == slots_.size() ? 0 : hand_ + 1;
    if (!mark.present || !evictable.Contains(slot)) continue;
    if (!mark.used) return slot;
    mark.used = false;
  }
  CheckFailed(__FILE__, __LINE__, "a slot is evictable",
              "a victim was asked for and no slot is evictable");
}

}  // namespace moetier
