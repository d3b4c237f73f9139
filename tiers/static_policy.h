#ifndef MOETIER_TIERS_STATIC_POLICY_H_
#define MOETIER_TIERS_STATIC_POLICY_H_

#include <vector>

#include "tiers/eviction_policy.h"
#include "tiers/slot_order.h"

namespace moetier {

// Some keys are members: the given hot ones, at most as many as there are slots, or, if none are
// given, as many as there are slots of those that are admitted hot first. Slots of others go first,
// least recently used first. A member goes only when nothing else may, since a wave must have its
// slots; it stays a member and comes back when it is used.
class StaticPolicy final : public EvictionPolicy {
 public:
  StaticPolicy(const Sizes& sizes, std::span<const KeyIndex> hot);

  void Observe(KeyIndex key, uint64_t step, double heat) override;
  void Admit(SlotIndex slot, KeyIndex key, Admission admission) override;
  void Touch(SlotIndex slot) override;
  void Remove(SlotIndex slot) override;
  [[nodiscard]] SlotIndex Victim(const EvictableSlots& evictable) override;

 private:
  // Makes the key a member while there is room.
  void Join(KeyIndex key);

  std::vector<bool> is_member_;  // per key
  uint32_t places_left_;
  SlotOrder members_;
  SlotOrder others_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STATIC_POLICY_H_
