#include "tiers/static_policy.h"

#include "base/check.h"

namespace moetier {

StaticPolicy::StaticPolicy(const Sizes& sizes, std::span<const KeyIndex> hot)
    : is_member_(sizes.key_count),
      places_left_(sizes.used_at_first == 0 ? sizes.slot_count : sizes.used_at_first),
      members_(sizes.slot_count),
      others_(sizes.slot_count) {
  for (const KeyIndex key : hot) Join(key);
  if (!hot.empty()) places_left_ = 0;
}

void StaticPolicy::Observe(KeyIndex /*key*/, uint64_t /*step*/, double /*heat*/) {}

void StaticPolicy::Admit(SlotIndex slot, KeyIndex key, Admission admission) {
  if (admission == Admission::kHot) Join(key);
  SlotOrder& order = is_member_[Raw(key)] ? members_ : others_;
  if (admission == Admission::kHot) {
    order.PushHot(slot);
  } else {
    order.PushCold(slot);
  }
}

void StaticPolicy::Touch(SlotIndex slot) {
  SlotOrder& order = members_.Contains(slot) ? members_ : others_;
  order.Remove(slot);
  order.PushHot(slot);
}

void StaticPolicy::Remove(SlotIndex slot) {
  (members_.Contains(slot) ? members_ : others_).Remove(slot);
}

SlotIndex StaticPolicy::Victim(const EvictableSlots& evictable) {
  for (const SlotOrder* order : {&others_, &members_}) {
    for (SlotIndex slot = order->coldest(); slot != SlotOrder::kNone; slot = order->Hotter(slot)) {
      if (evictable.Contains(slot)) return slot;
    }
  }
  CheckFailed(__FILE__, __LINE__, "a slot is evictable",
              "a victim was asked for and no slot is evictable");
}

void StaticPolicy::Join(KeyIndex key) {
  if (places_left_ == 0 || is_member_[Raw(key)]) return;
  is_member_[Raw(key)] = true;
  --places_left_;
}

}  // namespace moetier
