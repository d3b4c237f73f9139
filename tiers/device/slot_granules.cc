#include "tiers/device/slot_granules.h"

#include "base/check.h"

namespace moetier {

Bytes DeviceMemory(const ArenaPlan& plan, Bytes granule) {
  Bytes sum;
  for (const ArenaRegion& region : plan.regions) {
    sum += Bytes(AlignUp((region.slot_bytes * region.slots).count(), granule.count()));
  }
  return sum;
}

SlotGranules::SlotGranules(Bytes slot_bytes, Bytes granule, uint32_t places)
    : slot_bytes_(slot_bytes),
      granule_(granule),
      has_memory_(places),
      needed_by_(AlignUp((slot_bytes * places).count(), granule.count()) / granule.count()) {}

SlotGranules::Run SlotGranules::Of(SlotIndex first, uint32_t count) const {
  MOE_CHECK(Raw(first) + uint64_t{count} <= has_memory_.size(), "slots {} to {} of {}", Raw(first),
            Raw(first) + uint64_t{count}, has_memory_.size());
  if (count == 0) return {};
  const uint64_t begin = (slot_bytes_ * Raw(first)).count() / granule_.count();
  const uint64_t last =
      ((slot_bytes_ * (uint64_t{Raw(first)} + count)).count() - 1) / granule_.count();
  return {.first = begin, .count = last - begin + 1};
}

std::vector<SlotGranules::Run> SlotGranules::Lacking(SlotIndex first, uint32_t count) const {
  std::vector<Run> lacking;
  const Run all = Of(first, count);
  for (uint64_t at = all.first; at < all.first + all.count; ++at) {
    if (needed_by_[at] > 0) continue;
    const bool goes_on = !lacking.empty() && lacking.back().first + lacking.back().count == at;
    if (!goes_on) lacking.push_back({.first = at, .count = 0});
    ++lacking.back().count;
  }
  return lacking;
}

void SlotGranules::Add(SlotIndex first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const SlotIndex slot{Raw(first) + i};
    const Run of_slot = Of(slot, 1);
    MOE_CHECK(!has_memory_[Raw(slot)], "slot {} has memory", Raw(slot));
    has_memory_[Raw(slot)] = true;
    for (uint64_t at = of_slot.first; at < of_slot.first + of_slot.count; ++at) {
      if (needed_by_[at]++ == 0) ++mapped_;
    }
  }
}

SlotGranules::Run SlotGranules::Remove(SlotIndex slot) {
  const Run of_slot = Of(slot, 1);
  MOE_CHECK(has_memory_[Raw(slot)], "slot {} has no memory", Raw(slot));
  has_memory_[Raw(slot)] = false;
  Run freed{.first = of_slot.first, .count = 0};
  for (uint64_t at = of_slot.first; at < of_slot.first + of_slot.count; ++at) {
    if (--needed_by_[at] > 0) continue;
    if (freed.count == 0) freed.first = at;
    ++freed.count;  // those between the first and the last are of this slot alone
  }
  mapped_ -= freed.count;
  return freed;
}

}  // namespace moetier
