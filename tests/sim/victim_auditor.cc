#include "tests/sim/victim_auditor.h"

#include <fmt/core.h>

#include <utility>

namespace moetier {

void VictimAuditor::Listens(SessionId session) {
  const uint64_t evictions = places_.evictions();
  listeners_.emplace(session, Listener{.since_turn = turn_,
                                       .evictions_before = evictions,
                                       .told_early_most = evictions - evictions_due_,
                                       .told = 0,
                                       .victims = {}});
}

void VictimAuditor::IsTold(SessionId session, const std::vector<Victim>& victims) {
  const auto found = listeners_.find(session);
  if (found == listeners_.end()) return auditor_.Report("a session is told that does not listen");
  for (const Victim& victim : victims) {
    const Tenant tenant{victim.key, victim.generation};
    ++found->second.told;
    found->second.victims.emplace(victim.pool, tenant);
    for (const Gone& gone : due_) {
      if (gone.from.pool != victim.pool || gone.tenant != tenant) continue;
      const ResidencyLedger* const ledger = places_.LedgerOf(victim.pool, gone.from.size_class);
      if (ledger->View(gone.from.slot).state != SlotState::kResident) continue;
      auditor_.Report(fmt::format("victim {} is told when its slot has other bytes already",
                                  ToString(victim.key)));
    }
  }
}

void VictimAuditor::BeginTurn() {
  ++turn_;
  evictions_due_ = places_.evictions();
  due_ = std::exchange(gone_, {});
}

void VictimAuditor::EndTurn() {
  const uint64_t evictions = places_.evictions();
  if (places_.LedgerOf(kRamPool, SizeClass{0}) == nullptr) return;  // it has been handed back
  for (const auto& [session, listener] : listeners_) {
    if (listener.since_turn == turn_) continue;
    const uint64_t due = evictions_due_ - listener.evictions_before;
    const uint64_t most = evictions - listener.evictions_before + listener.told_early_most;
    if (listener.told < due || listener.told > most) {
      auditor_.Report(
          fmt::format("session {} is told of {} victims, at least {} and at most {} are",
                      Raw(session), listener.told, due, most));
    }
    if (listener.since_turn + 1 == turn_) continue;  // some may have left just before it listened
    for (const Gone& gone : due_) {
      if (listener.victims.contains({gone.from.pool, gone.tenant})) continue;
      auditor_.Report(fmt::format("session {} is not told that {} has left", Raw(session),
                                  ToString(gone.tenant.key)));
    }
  }
}

void VictimAuditor::Look() {
  for (const PoolId pool : SimPlaces::kPools) {
    for (size_t i = 0; i < size_classes_; ++i) {
      const SizeClass size_class{static_cast<uint8_t>(i)};
      const ResidencyLedger* const ledger = places_.LedgerOf(pool, size_class);
      if (ledger == nullptr) continue;
      for (uint32_t slot = 0; slot < ledger->place_count(); ++slot) {
        const At at{pool, size_class, SlotIndex{slot}};
        const ResidencyLedger::SlotView view = ledger->View(at.slot);
        const Tenant now{view.key, view.generation};
        const bool resident = view.state == SlotState::kResident;
        const auto found = residents_.find(at);
        if (found == residents_.end()) {
          if (resident) residents_.emplace(at, now);
          continue;
        }
        if (resident && found->second == now) continue;
        gone_.push_back({at, found->second});
        residents_.erase(found);
        if (resident) residents_.emplace(at, now);
      }
    }
  }
}

}  // namespace moetier
