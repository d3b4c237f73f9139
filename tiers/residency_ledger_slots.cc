// The arrows of ResidencyLedger's slots: how one is reserved, taken, loaded, landed, drained, given
// up and freed.

#include <utility>

#include "base/check.h"
#include "tiers/residency_ledger.h"

namespace moetier {

bool ResidencyLedger::IsEvictable(const Slot& slot) {
  return slot.state == SlotState::kResident && slot.reservations == 0;
}

SlotIndex ResidencyLedger::TakeSlot() {
  if (free_.empty()) {
    class Evictable final : public EvictableSlots {
     public:
      explicit Evictable(const std::vector<Slot>& slots) : slots_(slots) {}
      [[nodiscard]] bool Contains(SlotIndex slot) const override {
        return IsEvictable(slots_[Raw(slot)]);
      }

     private:
      const std::vector<Slot>& slots_;
    };
    Evict(policy_->Victim(Evictable(slots_)));
  }
  const SlotIndex taken = free_.back();
  free_.pop_back();
  return taken;
}

void ResidencyLedger::Reserve(SlotIndex index) {
  Slot& slot = At(index);
  if (IsEvictable(slot)) --evictable_;
  if (slot.reservations++ == 0) ++counts_.reserved;
}

void ResidencyLedger::Unreserve(SlotIndex index) {
  Slot& slot = At(index);
  MOE_CHECK(slot.reservations > 0, "slot {} is unreserved once too often", Raw(index));
  if (--slot.reservations == 0) --counts_.reserved;
  if (!IsEvictable(slot)) return;
  ++evictable_;
  if (slot.dropped) GiveUp(index);
}

void ResidencyLedger::Evict(SlotIndex index) {
  ++counts_.evictions;
  Vacate(index);
}

void ResidencyLedger::GiveUp(SlotIndex index) {
  ++counts_.dropped;
  Vacate(index);
}

void ResidencyLedger::Vacate(SlotIndex index) {
  Slot& slot = At(index);
  MOE_CHECK(IsEvictable(slot), "slot {} is evicted in state {} with {} reservations", Raw(index),
            static_cast<int>(slot.state), slot.reservations);
  At(slot.key).slot.reset();  // the flag goes first
  slot.dropped = false;
  SetState(slot, SlotState::kEvicting);
  policy_->Remove(index);
  --evictable_;
  Free(index);
}

void ResidencyLedger::Load(Hold& hold, CommandList& out) {
  const SlotIndex index = TakeSlot();
  Slot& slot = At(index);
  SetState(slot, SlotState::kLoading);
  slot.key = hold.key;
  At(hold.key).slot = index;
  policy_->Admit(index, hold.key, hold.wave->admission);
  Reserve(hold, index);
  AddWaiter(hold);
  StartReading(index, out);
}

void ResidencyLedger::StartReading(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  slot.sequence = ++last_sequence_;
  ++slot.generation;
  out.push_back(StartRead{TicketOf(index), At(slot.key).name});
}

void ResidencyLedger::Land(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  SetState(slot, SlotState::kResident);
  for (Hold* hold = std::exchange(slot.first_waiter, nullptr); hold != nullptr;
       hold = hold->next_waiter) {
    hold->state = Hold::State::kReady;
    out.push_back(KeyReady{hold->wave->id, hold->index, index, hold->resolution});
  }
}

void ResidencyLedger::Fail(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  Key& key = At(slot.key);
  key.slot.reset();
  Quarantine(key);
  policy_->Remove(index);
  for (Hold* hold = std::exchange(slot.first_waiter, nullptr); hold != nullptr;
       hold = hold->next_waiter) {
    hold->state = Hold::State::kFailed;
    Unreserve(*hold);
    out.push_back(KeyFailed{.wave = hold->wave->id, .index = hold->index});
  }
  Free(index);
}

void ResidencyLedger::Cancel(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  At(slot.key).slot.reset();
  policy_->Remove(index);
  SetState(slot, SlotState::kDraining);
  ++counts_.cancelled_reads;
  out.push_back(CancelRead{TicketOf(index), At(slot.key).name});
}

void ResidencyLedger::KeepDrained(SlotIndex index) {
  Slot& slot = At(index);
  SetState(slot, SlotState::kResident);
  At(slot.key).slot = index;
  policy_->Admit(index, slot.key, Admission::kCold);
  ++evictable_;
  ++counts_.kept_reads;
}

void ResidencyLedger::Free(SlotIndex index) {
  SetState(At(index), SlotState::kAbsent);
  free_.push_back(index);
}

void ResidencyLedger::Quarantine(Key& key) {
  if (!key.quarantined) ++counts_.quarantined;
  key.quarantined = true;
}

Ticket ResidencyLedger::TicketOf(SlotIndex index) const {
  const Slot& slot = At(index);
  return {.sequence = slot.sequence, .slot = index, .generation = slot.generation};
}

std::optional<SlotIndex> ResidencyLedger::Redeem(const Ticket& ticket) {
  if (Raw(ticket.slot) < slots_.size() && ticket == TicketOf(ticket.slot)) {
    const SlotState state = At(ticket.slot).state;
    if (state == SlotState::kLoading || state == SlotState::kDraining) return ticket.slot;
  }
  ++counts_.refused_tickets;
  return std::nullopt;
}

void ResidencyLedger::SetState(Slot& slot, SlotState state) {
  if (uint32_t* gauge = Gauge(slot.state)) --*gauge;
  slot.state = state;
  if (uint32_t* gauge = Gauge(slot.state)) ++*gauge;
}

uint32_t* ResidencyLedger::Gauge(SlotState state) {
  switch (state) {
    case SlotState::kAbsent:
      return &counts_.free;
    case SlotState::kLoading:
      return &counts_.loading;
    case SlotState::kResident:
      return &counts_.resident;
    case SlotState::kDraining:
      return &counts_.draining;
    case SlotState::kEvicting:
      break;  // never outlives a step
  }
  return nullptr;
}

}  // namespace moetier
