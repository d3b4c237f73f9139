#ifndef MOETIER_TIERS_CLOCK_POLICY_H_
#define MOETIER_TIERS_CLOCK_POLICY_H_

#include <vector>

#include "tiers/eviction_policy.h"

namespace moetier {

// Second chance: a hand goes round the slots; one that was used since the hand came by last loses
// its mark and stays, one without a mark goes. Slots that may not go keep their mark. What is
// admitted cold has no mark.
class ClockPolicy final : public EvictionPolicy {
 public:
  explicit ClockPolicy(uint32_t slot_count) : slots_(slot_count) {}

  void Observe(KeyIndex key, uint64_t step, double heat) override;
  void Admit(SlotIndex slot, KeyIndex key, Admission admission) override;
  void Touch(SlotIndex slot) override;
  void Remove(SlotIndex slot) override;
  [[nodiscard]] SlotIndex Victim(const EvictableSlots& evictable) override;

 private:
  struct Mark {
    bool present = false;
    bool used = false;
  };

  std::vector<Mark> slots_;
  uint32_t hand_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_CLOCK_POLICY_H_
