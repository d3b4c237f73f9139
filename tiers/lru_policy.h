#ifndef MOETIER_TIERS_LRU_POLICY_H_
#define MOETIER_TIERS_LRU_POLICY_H_

#include "tiers/eviction_policy.h"
#include "tiers/slot_order.h"

namespace moetier {

// The least recently used slot goes first. What was admitted cold goes before all else, the latest
// of it first: of a scan larger than the pool the beginning stays, which the next scan can use.
class LruPolicy final : public EvictionPolicy {
 public:
  explicit LruPolicy(uint32_t slot_count) : order_(slot_count) {}

  void Observe(KeyIndex key, uint64_t step, double heat) override;
  void Admit(SlotIndex slot, KeyIndex key, Admission admission) override;
  void Touch(SlotIndex slot) override;
  void Remove(SlotIndex slot) override;
  [[nodiscard]] SlotIndex Victim(const EvictableSlots& evictable) override;

 private:
  SlotOrder order_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_LRU_POLICY_H_
