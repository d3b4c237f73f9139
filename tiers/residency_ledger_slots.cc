// The arrows of ResidencyLedger's slots: how one is reserved, taken, loaded, landed, drained, given
// up and freed.

#include <utility>

#include "base/check.h"
#include "tiers/residency_ledger.h"

namespace moetier {

bool ResidencyLedger::IsEvictable(const Slot& slot) {
  return slot.state == SlotState::kResident && slot.reservations == 0;
}

void ResidencyLedger::LeaveVictims(const Slot& slot) {
  if (!IsEvictable(slot)) return;
  --evictable_;
  if (slot.expected) --spared_;
}

void ResidencyLedger::JoinVictims(const Slot& slot) {
  if (!IsEvictable(slot)) return;
  ++evictable_;
  if (slot.expected) ++spared_;
}

SlotIndex ResidencyLedger::TakeSlot(Victims victims, CommandList& out) {
  if (free_.empty()) {
    class Evictable final : public EvictableSlots {
     public:
      Evictable(const std::vector<Slot>& slots, Victims victims)
          : slots_(slots), victims_(victims) {}
      [[nodiscard]] bool Contains(SlotIndex slot) const override {
        const Slot& candidate = slots_[Raw(slot)];
        return IsEvictable(candidate) && (victims_ == Victims::kAll || !candidate.expected);
      }

     private:
      const std::vector<Slot>& slots_;
      const Victims victims_;
    };
    Evict(policy_->Victim(Evictable(slots_, victims)), out);
  }
  const SlotIndex taken = free_.back();
  free_.pop_back();
  return taken;
}

void ResidencyLedger::Reserve(SlotIndex index, Tenure tenure) {
  Slot& slot = At(index);
  LeaveVictims(slot);
  if (slot.reservations++ == 0) ++counts_.reserved;
  if (tenure == Tenure::kHeld && slot.held++ == 0) ++counts_.held;
}

void ResidencyLedger::Unreserve(SlotIndex index, Tenure tenure, CommandList& out) {
  Slot& slot = At(index);
  MOE_CHECK(slot.reservations > 0 && (tenure == Tenure::kCall || slot.held > 0),
            "slot {} is unreserved once too often", Raw(index));
  if (tenure == Tenure::kHeld && --slot.held == 0) --counts_.held;
  if (--slot.reservations == 0) --counts_.reserved;
  JoinVictims(slot);
  if (IsEvictable(slot) && slot.dropped) GiveUp(index, out);
}

void ResidencyLedger::Evict(SlotIndex index, CommandList& out) {
  ++counts_.evictions;
  Vacate(index, out);
}

void ResidencyLedger::GiveUp(SlotIndex index, CommandList& out) {
  ++counts_.dropped;
  Vacate(index, out);
}

void ResidencyLedger::Vacate(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  MOE_CHECK(IsEvictable(slot), "slot {} is evicted in state {} with {} reservations", Raw(index),
            static_cast<int>(slot.state), slot.reservations);
  At(slot.key).slot.reset();  // the flag goes first
  out.push_back(KeyEvicted{.key = At(slot.key).name, .slot = index, .generation = slot.generation});
  LeaveVictims(slot);
  WasteGuess(index);
  slot.dropped = false;
  SetState(slot, SlotState::kEvicting);
  policy_->Remove(index);
  Free(index);
}

void ResidencyLedger::Load(Hold& hold, CommandList& out) {
  const SlotIndex index =
      TakeSlot(evictable_ > spared_ ? Victims::kUnexpected : Victims::kAll, out);
  Occupy(index, hold.key, hold.wave->admission);
  Reserve(hold, index);
  AddWaiter(hold);
  StartReading(index, Urgency::kDemand, out);
}

void ResidencyLedger::Occupy(SlotIndex index, KeyIndex key, Admission admission) {
  SetState(At(index), SlotState::kLoading);
  At(index).key = key;
  At(key).slot = index;
  policy_->Admit(index, key, admission);
}

void ResidencyLedger::StartReading(SlotIndex index, Urgency urgency, CommandList& out) {
  Slot& slot = At(index);
  slot.sequence = ++last_sequence_;
  ++slot.generation;
  out.push_back(StartRead{TicketOf(index), At(slot.key).name, urgency});
}

void ResidencyLedger::Land(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  SetState(slot, SlotState::kResident);
  std::erase(unjoined_, index);
  JoinVictims(slot);
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
  WasteGuess(index);
  policy_->Remove(index);
  for (Hold* hold = std::exchange(slot.first_waiter, nullptr); hold != nullptr;
       hold = hold->next_waiter) {
    hold->state = Hold::State::kFailed;
    Unreserve(*hold, out);
    out.push_back(KeyFailed{.wave = hold->wave->id, .index = hold->index});
  }
  Free(index);
}

void ResidencyLedger::Forgo(SlotIndex index) {
  At(At(index).key).slot.reset();
  WasteGuess(index);
  policy_->Remove(index);
  Free(index);
}

void ResidencyLedger::Cancel(SlotIndex index, CommandList& out) {
  Slot& slot = At(index);
  At(slot.key).slot.reset();
  WasteGuess(index);
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
  JoinVictims(slot);
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
    case SlotState::kRetired:
      return &counts_.retired;
    case SlotState::kEvicting:
      break;  // never outlives a step
  }
  return nullptr;
}

}  // namespace moetier
