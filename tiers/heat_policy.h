#ifndef MOETIER_TIERS_HEAT_POLICY_H_
#define MOETIER_TIERS_HEAT_POLICY_H_

#include <span>
#include <vector>

#include "tiers/decayed_counts.h"
#include "tiers/eviction_policy.h"
#include "tiers/slot_order.h"

namespace moetier {

// The slot whose key has the least heat goes, of equals the least recently used. Heat halves every
// `half_life` steps, is counted for keys that are not resident too, and starts at a prior. What was
// loaded a moment ago has no protection: an expert used once in a while passes through without
// pushing out a hotter one. What was admitted cold and not used since goes before all others.
// Cost: logarithmic in the slots, and in those that may not go.
class HeatPolicy final : public EvictionPolicy {
 public:
  // A prompt's own experts stay hot over a few hundred tokens; see policy_heat_trace_test.
  static constexpr uint32_t kDefaultHalfLife = 128;

  HeatPolicy(const Sizes& sizes, uint32_t half_life, std::span<const double> prior);

  void Observe(KeyIndex key, uint64_t step, double heat) override;
  void Admit(SlotIndex slot, KeyIndex key, Admission admission) override;
  void Touch(SlotIndex slot) override;
  void Remove(SlotIndex slot) override;
  [[nodiscard]] SlotIndex Victim(const EvictableSlots& evictable) override;

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Place {
    KeyIndex key{};
    uint32_t in_heap = kNowhere;
    uint64_t used_at = 0;  // by uses_: the order of equals
  };

  [[nodiscard]] bool Colder(SlotIndex a, SlotIndex b) const;
  void Push(SlotIndex slot);
  void Settle(uint32_t at);
  uint32_t Rise(uint32_t at);
  void Sink(uint32_t at);
  void Put(uint32_t at, SlotIndex slot);
  [[nodiscard]] SlotIndex ColdestInHeap(const EvictableSlots& evictable);

  DecayedCounts heat_;
  std::vector<SlotIndex> slot_of_;  // per key; SlotOrder::kNone where it has none
  std::vector<Place> places_;       // per slot
  SlotOrder cold_;                  // admitted cold and not used since
  std::vector<SlotIndex> heap_;     // the other slots, the coldest first
  std::vector<uint32_t> frontier_;  // places in the heap that Victim has yet to look at
  uint64_t uses_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_HEAT_POLICY_H_
