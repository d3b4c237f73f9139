#ifndef MOETIER_TIERS_LFU_POLICY_H_
#define MOETIER_TIERS_LFU_POLICY_H_

#include <vector>

#include "tiers/eviction_policy.h"
#include "tiers/slot_order.h"

namespace moetier {

// Of the `window` least recently used slots, the one whose key is asked for least often goes; of
// equals the least recently used. A frequency halves every `half_life` steps (never if 0), counts
// the heat of every step that asks for the key, and outlives the key's eviction.
class LfuPolicy final : public EvictionPolicy {
 public:
  struct Options {
    uint32_t window = 0;
    uint32_t half_life = 0;  // in steps
  };

  LfuPolicy(const Sizes& sizes, const Options& options)
      : options_(options),
        order_(sizes.slot_count),
        owners_(sizes.slot_count),
        uses_(sizes.key_count) {}

  void Observe(KeyIndex key, uint64_t step, double heat) override;
  void Admit(SlotIndex slot, KeyIndex key, Admission admission) override;
  void Touch(SlotIndex slot) override;
  void Remove(SlotIndex slot) override;
  // Slots that may not go do not count towards the window.
  [[nodiscard]] SlotIndex Victim(const EvictableSlots& evictable) override;

 private:
  struct Use {
    double frequency = 0;
    uint64_t step = 0;  // when the frequency was brought up to date
  };

  [[nodiscard]] double Frequency(KeyIndex key) const;

  Options options_;
  SlotOrder order_;
  std::vector<KeyIndex> owners_;  // per slot
  std::vector<Use> uses_;         // per key
  uint64_t step_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_LFU_POLICY_H_
