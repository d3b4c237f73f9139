#include "tiers/slot_order.h"

#include "base/check.h"

namespace moetier {

void SlotOrder::PushHot(SlotIndex slot) { Insert(slot, hottest_, kNone); }

void SlotOrder::PushCold(SlotIndex slot) { Insert(slot, kNone, coldest_); }

void SlotOrder::Insert(SlotIndex slot, SlotIndex colder, SlotIndex hotter) {
  MOE_CHECK(!At(slot).linked, "slot {} is in the order already", Raw(slot));
  At(slot) = {.colder = colder, .hotter = hotter, .linked = true};
  (colder == kNone ? coldest_ : At(colder).hotter) = slot;
  (hotter == kNone ? hottest_ : At(hotter).colder) = slot;
}

void SlotOrder::Remove(SlotIndex slot) {
  const Link link = At(slot);
  MOE_CHECK(link.linked, "slot {} is not in the order", Raw(slot));
  (link.colder == kNone ? coldest_ : At(link.colder).hotter) = link.hotter;
  (link.hotter == kNone ? hottest_ : At(link.hotter).colder) = link.colder;
  At(slot) = {};
}

}  // namespace moetier
