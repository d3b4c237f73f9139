#include "tiers/lfu_policy.h"

#include <cmath>

#include "base/check.h"

namespace moetier {

void LfuPolicy::Observe(KeyIndex key, uint64_t step, double heat) {
  step_ = step;
  uses_[Raw(key)] = {.frequency = Frequency(key) + heat, .step = step};
}

void LfuPolicy::Admit(SlotIndex slot, KeyIndex key, Admission admission) {
  owners_[Raw(slot)] = key;
  if (admission == Admission::kHot) {
    order_.PushHot(slot);
  } else {
    order_.PushCold(slot);
  }
}

void LfuPolicy::Touch(SlotIndex slot) {
  order_.Remove(slot);
  order_.PushHot(slot);
}

void LfuPolicy::Remove(SlotIndex slot) { order_.Remove(slot); }

SlotIndex LfuPolicy::Victim(const EvictableSlots& evictable) {
  SlotIndex victim = SlotOrder::kNone;
  double least = 0;
  uint32_t seen = 0;
  for (SlotIndex slot = order_.coldest(); slot != SlotOrder::kNone && seen < options_.window;
       slot = order_.Hotter(slot)) {
    if (!evictable.Contains(slot)) continue;
    ++seen;
    const double frequency = Frequency(owners_[Raw(slot)]);
    if (victim != SlotOrder::kNone && frequency >= least) continue;
    victim = slot;
    least = frequency;
  }
  MOE_CHECK(victim != SlotOrder::kNone, "a victim was asked for and no slot is evictable");
  return victim;
}

double LfuPolicy::Frequency(KeyIndex key) const {
  const Use& use = uses_[Raw(key)];
  if (options_.half_life == 0 || use.frequency == 0) return use.frequency;
  const auto steps = static_cast<double>(step_ - use.step);
  return use.frequency * std::exp2(-steps / options_.half_life);
}

}  // namespace moetier
