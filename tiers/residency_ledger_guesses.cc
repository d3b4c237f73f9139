// ResidencyLedger's prefetches: experts read before any wave asks for them.

#include <algorithm>

#include "tiers/residency_ledger.h"

namespace moetier {

void ResidencyLedger::On(const Prefetch& event, CommandList& out) {
  const KeyIndex index = IndexOf(event.key);
  const Key& key = At(index);
  if (key.quarantined) return;
  if (!key.slot) Guess(event, index, out);
  if (key.slot && event.room == PrefetchRoom::kEvict) Expect(*key.slot);
}

void ResidencyLedger::On(const DropPrefetch& event, CommandList& out) {
  const KeyIndex key = IndexOf(event.key);
  if (!At(key).slot) return;
  const SlotIndex slot = *At(key).slot;
  const bool guessed = At(slot).expected;
  StopExpecting(slot);
  const bool joined = At(slot).reservations > 0 || IsWaitedFor(key);
  if (guessed && At(slot).state == SlotState::kLoading && !joined) Cancel(slot, out);
}

void ResidencyLedger::Guess(const Prefetch& event, KeyIndex key, CommandList& out) {
  const bool preheat = event.room == PrefetchRoom::kFreeSlots;
  const bool may_evict = !preheat && evictable_ > spared_;
  if (first_waiting_ != nullptr || (free_.empty() && !may_evict)) {
    if (!preheat) ++counts_.prefetch_refused;
    return;
  }
  const SlotIndex index = TakeSlot(Victims::kUnexpected, out);
  Occupy(index, key, event.admission);
  At(index).unused = true;
  At(index).preheat = preheat;
  unjoined_.push_back(index);
  ++(preheat ? counts_.preheated : counts_.prefetched);
  StartReading(index, Urgency::kPrefetch, out);
}

void ResidencyLedger::Expect(SlotIndex index) {
  Slot& slot = At(index);
  LeaveVictims(slot);
  slot.expected = true;
  JoinVictims(slot);
}

void ResidencyLedger::StopExpecting(SlotIndex index) {
  Slot& slot = At(index);
  LeaveVictims(slot);
  slot.expected = false;
  JoinVictims(slot);
}

// A wave names what may have been prefetched.
void ResidencyLedger::UseGuess(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  StopExpecting(index);
  if (!slot.unused) return;
  slot.unused = false;
  ++(slot.preheat ? counts_.preheat_used : counts_.prefetch_used);
  if (slot.state != SlotState::kLoading) return;
  if (!slot.preheat) ++counts_.prefetch_late;
  std::erase(unjoined_, index);
  out.push_back(PromoteRead{TicketOf(index), At(slot.key).name});
}

// The slot loses its key.
void ResidencyLedger::WasteGuess(SlotIndex index) {
  Slot& slot = At(index);
  slot.expected = false;
  if (!slot.unused) return;
  slot.unused = false;
  ++(slot.preheat ? counts_.preheat_wasted : counts_.prefetch_wasted);
  std::erase(unjoined_, index);
}

// Demand wins: what no wave waits for gives way to the first wave that waits, the youngest first,
// for they have the least done. Slots that drain already will do.
void ResidencyLedger::CancelGuessesFor(const Wave& wave, CommandList& out) {
  if (unjoined_.empty()) return;
  const size_t lacking = SlotsLacking(wave);
  for (size_t i = unjoined_.size(); i > 0 && counts_.draining < lacking; --i) {
    const SlotIndex slot = unjoined_[i - 1];
    if (!Names(wave, At(slot).key)) Cancel(slot, out);
  }
}

bool ResidencyLedger::Names(const Wave& wave, KeyIndex key) {
  return std::any_of(wave.holds.begin(), wave.holds.end(),
                     [=](const Hold& hold) { return hold.key == key; });
}

bool ResidencyLedger::IsWaitedFor(KeyIndex key) const {
  for (const Wave* wave = first_waiting_; wave != nullptr; wave = wave->next_waiting) {
    if (Names(*wave, key)) return true;
  }
  return false;
}

}  // namespace moetier
