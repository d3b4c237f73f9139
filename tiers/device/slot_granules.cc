#include "tiers/device/slot_granules.h"

#include "base/check.h"

namespace moetier {
namespace {

// `granule` is above all in `runs`.
void Append(uint64_t granule, std::vector<SlotGranules::Run>& runs) {
  const bool goes_on = !runs.empty() && runs.back().first + runs.back().count == granule;
  if (!goes_on) runs.push_back({.first = granule, .count = 0});
  ++runs.back().count;
}

}  // namespace

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
    if (needed_by_[at] == 0) Append(at, lacking);
  }
  return lacking;
}

std::vector<SlotGranules::Run> SlotGranules::Mapped() const {
  std::vector<Run> mapped;
  for (uint64_t at = 0; at < needed_by_.size(); ++at) {
    if (needed_by_[at] > 0) Append(at, mapped);
  }
  return mapped;
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
