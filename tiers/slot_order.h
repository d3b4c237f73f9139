#ifndef MOETIER_TIERS_SLOT_ORDER_H_
#define MOETIER_TIERS_SLOT_ORDER_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace moetier {

// A doubly linked list of slots over an array: each slot stands in it at most once; every step is
// constant in time and allocates nothing. The cold end is the front.
class SlotOrder {
 public:
  static constexpr SlotIndex kNone{UINT32_MAX};

  explicit SlotOrder(uint32_t slot_count) : links_(slot_count) {}

  void PushHot(SlotIndex slot);
  void PushCold(SlotIndex slot);
  void Remove(SlotIndex slot);
  [[nodiscard]] bool Contains(SlotIndex slot) const { return At(slot).linked; }

  // kNone where there is none.
  [[nodiscard]] SlotIndex coldest() const { return coldest_; }
  [[nodiscard]] SlotIndex Hotter(SlotIndex slot) const { return At(slot).hotter; }

 private:
  struct Link {
    SlotIndex colder = kNone;
    SlotIndex hotter = kNone;
    bool linked = false;
  };

  // Links the slot, which is not in the list, between two neighbours in it.
  void Insert(SlotIndex slot, SlotIndex colder, SlotIndex hotter);
  [[nodiscard]] Link& At(SlotIndex slot) { return links_[Raw(slot)]; }
  [[nodiscard]] const Link& At(SlotIndex slot) const { return links_[Raw(slot)]; }

  std::vector<Link> links_;
  SlotIndex coldest_ = kNone;
  SlotIndex hottest_ = kNone;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_SLOT_ORDER_H_
