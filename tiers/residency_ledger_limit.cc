// ResidencyLedger's slot limit: slots that retire, and come back.

#include <algorithm>

#include "base/check.h"
#include "tiers/residency_ledger.h"

namespace moetier {

uint32_t ResidencyLedger::ActiveSlots() const { return place_count() - counts_.retired; }

void ResidencyLedger::On(const LimitSlots& event, CommandList& /*out*/) {
  MOE_CHECK(event.limit > 0 && event.limit <= ActiveSlots(), "a limit of {} slots, {} are there",
            event.limit, ActiveSlots());
  limit_ = event.limit;
}

void ResidencyLedger::On(const RestoreSlots& event, CommandList& out) {
  MOE_CHECK(Raw(event.first) + uint64_t{event.count} <= slots_.size(), "slots {} to {} of {}",
            Raw(event.first), Raw(event.first) + uint64_t{event.count}, slots_.size());
  for (uint32_t i = 0; i < event.count; ++i) {
    const SlotIndex index{Raw(event.first) + i};
    MOE_CHECK(At(index).state == SlotState::kRetired, "slot {} is restored in state {}", Raw(index),
              static_cast<int>(At(index).state));
    Free(index);
  }
  limit_ = std::max(limit_, ActiveSlots());
  GrantWaiting(out);
}

// What the waves that wait need beside the held ones, some of them asked for under a larger limit.
uint32_t ResidencyLedger::SlotsWaitedFor() const {
  if (first_waiting_ == nullptr) return 0;
  size_t held = counts_.held;
  for (const Wave* wave = first_waiting_; wave != nullptr; wave = wave->next_waiting) {
    if (wave->tenure == Tenure::kHeld) held += wave->holds.size();
  }
  return static_cast<uint32_t>(held) + LargestWaiting();
}

uint32_t ResidencyLedger::LargestWaiting() const {
  size_t largest = 0;
  for (const Wave* wave = first_waiting_; wave != nullptr; wave = wave->next_waiting) {
    if (wave->tenure == Tenure::kCall) largest = std::max(largest, wave->holds.size());
  }
  return static_cast<uint32_t>(largest);
}

void ResidencyLedger::RetireExcess(CommandList& out) {
  if (ActiveSlots() <= limit_) return;
  const uint32_t kept = std::max(limit_, SlotsWaitedFor());
  while (ActiveSlots() > kept && (!free_.empty() || evictable_ > 0)) {
    const SlotIndex index =
        retiring_ == Retiring::kHighest ? TakeHighest(out) : TakeSlot(Victims::kAll, out);
    SetState(At(index), SlotState::kRetired);
    out.push_back(SlotRetired{.slot = index});
  }
}

// There is a slot that is free or evictable.
SlotIndex ResidencyLedger::TakeHighest(CommandList& out) {
  uint32_t highest = place_count() - 1;
  while (slots_[highest].state != SlotState::kAbsent && !IsEvictable(slots_[highest])) --highest;
  const SlotIndex index{highest};
  if (IsEvictable(At(index))) Evict(index, out);
  std::erase(free_, index);
  return index;
}

std::vector<SlotIndex> ResidencyLedger::RetiredSlots() const {
  std::vector<SlotIndex> retired;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == SlotState::kRetired) retired.push_back(SlotIndex{i});
  }
  return retired;
}

}  // namespace moetier
