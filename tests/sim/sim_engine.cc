#include "tests/sim/sim_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace moetier {

// Leases
// ------------------------------------------------------------------------------------------------

void SimEngine::Take(const ExpertKey& key, const SlotLease& lease, Answer answer) {
  SlotLease taken = lease;
  if (stage_.Plants(ExecutorCanary::kLeaseOfOldGeneration, 20)) --taken.generation;
  stage_.trace.Say("session {} has lease {} of {} in pool {}{}", Raw(id_), Raw(taken.lease),
                   ToString(key), Raw(taken.pool),
                   answer == Answer::kLost ? ", and does not hear of it" : "");
  if (const auto wrong = places_.CheckLease(key, taken)) stage_.auditor.Report(*wrong);
  if (!leases_.emplace(taken.lease, Leased{key, taken, answer}).second) {
    stage_.auditor.Report(fmt::format("lease {} is given twice", Raw(taken.lease)));
  }
}

void SimEngine::EndAll() {
  leases_.clear();
  transfers_.clear();
}

uint32_t SimEngine::EndOn(const std::set<Place>& places, const std::vector<LeaseId>& kept) {
  return static_cast<uint32_t>(std::erase_if(leases_, [&](const auto& entry) {
    const auto& [lease, leased] = entry;
    return places.contains({leased.key, leased.slot.pool}) &&
           std::ranges::find(kept, lease) == kept.end();
  }));
}

std::vector<LeaseId> SimEngine::known_leases() const {
  std::vector<LeaseId> known;
  for (const auto& [lease, leased] : leases_) {
    if (leased.answer == Answer::kHeard) known.push_back(lease);
  }
  return known;
}

void SimEngine::AddLeased(PoolId pool, std::set<ExpertKey>& keys) const {
  for (const auto& [lease, leased] : leases_) {
    if (leased.slot.pool == pool) keys.insert(leased.key);
  }
}

void SimEngine::SpoilLease() {
  if (leases_.empty()) return;
  const auto& [key, slot, answer] = leases_.begin()->second;
  const std::span<std::byte> memory =
      places_.MemoryOf(slot.pool, stage_.machine.sim_model.ClassOf(key), slot.slot);
  if (!memory.empty()) memory[stage_.random.Below(slot.bytes)] ^= std::byte{1};
}

void SimEngine::ForgetLease() {
  if (leases_.empty()) return;
  const auto& [key, slot, answer] = leases_.begin()->second;
  const SizeClass size_class = stage_.machine.sim_model.ClassOf(key);
  const bool alone = places_.LedgerOf(slot.pool, size_class)->View(slot.slot).reservations == 1;
  if (alone && slot.pool == kRamPool) stage_.machine.stepped.ForgetLease(size_class, key);
}

void SimEngine::KeepLease() {
  for (const auto& [lease, leased] : leases_) {
    if (leased.slot.pool != kDevicePool) continue;
    return stage_.machine.stepped.KeepLease(stage_.machine.sim_model.ClassOf(leased.key),
                                            leased.key);
  }
}

void SimEngine::OnLeasesLost(const LostLeases& lost) {
  LostLeases told = lost;
  if (stage_.canary == ExecutorCanary::kLostLeaseUntold) told.leases.pop_back();
  if (stage_.canary == ExecutorCanary::kLostLeaseToldTwice) told.leases.push_back(lost.leases[0]);
  const bool is_lost = stage_.machine.device() != nullptr && stage_.machine.device()->lost();
  if (!is_lost || told.pool != kDevicePool || told.why.reason != Reason::kDeviceLost) {
    stage_.auditor.Report(fmt::format("session {} is told that leases in pool {} are lost: {}",
                                      Raw(id_), Raw(told.pool), told.why.message));
  }
  for (const LeaseId lease : told.leases) {
    stage_.trace.Say("session {} has lost lease {}", Raw(id_), Raw(lease));
    const auto node = leases_.extract(lease);
    if (!node.empty() && node.mapped().slot.pool == told.pool) continue;
    stage_.auditor.Report(
        fmt::format("session {} is told that lease {} is lost", Raw(id_), Raw(lease)));
  }
}

void SimEngine::SeeLoss() {
  const size_t lost = std::erase_if(
      leases_, [](const auto& entry) { return entry.second.slot.pool == kDevicePool; });
  if (lost == 0 || !listens_) return;
  stage_.auditor.Report(
      fmt::format("session {} is not told of {} leases that are lost", Raw(id_), lost));
}

// Transfers
// ------------------------------------------------------------------------------------------------

void SimEngine::Join(TransferId number, PoolId pool, const ExpertKey& key) {
  const auto found = transfers_.find(Raw(number));
  if (found != transfers_.end()) {
    const Transfer& known = found->second;
    const bool ended = known.ended && listens_;
    if (known.pool == pool && known.key == key && !ended) return;
    return stage_.auditor.Report(
        fmt::format("transfer {} of session {} is another one's number", Raw(number), Raw(id_)));
  }
  if (Raw(number) != transfers_.size() + 1) {
    stage_.auditor.Report(fmt::format("transfer {} of session {} follows {}", Raw(number), Raw(id_),
                                      transfers_.size()));
  }
  stage_.trace.Say("session {} has joined transfer {} of {} to pool {}", Raw(id_), Raw(number),
                   ToString(key), Raw(pool));
  transfers_.emplace(Raw(number), Transfer{.pool = pool, .key = key});
}

void SimEngine::OnTransferEnded(const EndedTransfer& transfer) {
  EndedTransfer told = transfer;
  if (stage_.Plants(ExecutorCanary::kTransferEndLost, 10)) return;
  if (stage_.canary == ExecutorCanary::kFailedTransferToldAsLanded) told.failed.reset();
  NoteEnd(told);
  if (stage_.Plants(ExecutorCanary::kTransferEndToldTwice, 10)) NoteEnd(told);
}

void SimEngine::NoteEnd(const EndedTransfer& told) {
  stage_.trace.Say("session {}: transfer {} of {} ends{}", Raw(id_), Raw(told.transfer),
                   ToString(told.key), told.failed ? ": " + told.failed->message : "");
  const auto found = transfers_.find(Raw(told.transfer));
  if (found == transfers_.end() || found->second.key != told.key) {
    return stage_.auditor.Report(fmt::format("session {} is told of transfer {} of {}", Raw(id_),
                                             Raw(told.transfer), ToString(told.key)));
  }
  Transfer& transfer = found->second;
  if (std::exchange(transfer.ended, true)) {
    stage_.auditor.Report(
        fmt::format("transfer {} of session {} ends twice", Raw(told.transfer), Raw(id_)));
  }
  transfer.failed = told.failed.has_value();
  if (told.failed) return CheckFailure(transfer, *told.failed);
  if (const auto wrong = places_.CheckResident(transfer.pool, transfer.key)) {
    stage_.auditor.Report(fmt::format("transfer {} of session {} has landed, but {}",
                                      Raw(told.transfer), Raw(id_), *wrong));
  }
}

void SimEngine::CheckFailure(const Transfer& transfer, const Error& error) const {
  SimMachine& machine = stage_.machine;
  if (error.reason == Reason::kDraining && machine.stopping) return;
  if (machine.drive().Spoilt(transfer.key)) return;
  const bool by_device = transfer.pool == kDevicePool && machine.device() != nullptr &&
                         (machine.device()->HasFailed() || machine.device()->lost());
  if (by_device) return;
  stage_.auditor.Report(
      fmt::format("the transfer of {} fails: {}", ToString(transfer.key), error.message));
}

// Who listens knows what has ended; who does not learns it here.
void SimEngine::TakeLanded(TransferId after, const LandedTransfers& told) {
  const auto says_ended = [&](uint64_t number) {
    return number < Raw(told.all_done_below) ||
           std::ranges::binary_search(told.done_above, TransferId{number});
  };
  if (Raw(told.all_done_below) > transfers_.size() + 1) {
    stage_.auditor.Report(fmt::format("session {} is told that all below {} have ended of {}",
                                      Raw(id_), Raw(told.all_done_below), transfers_.size()));
  }
  std::set<uint64_t> failed;
  for (const EndedTransfer& each : told.failed) {
    failed.insert(Raw(each.transfer));
    const auto found = transfers_.find(Raw(each.transfer));
    const bool known = found != transfers_.end() && says_ended(found->first) && each.failed &&
                       each.transfer > after && found->second.key == each.key;
    if (!known || (listens_ && found->second.ended && !found->second.failed)) {
      stage_.auditor.Report(fmt::format("session {} is told that transfer {} has failed", Raw(id_),
                                        Raw(each.transfer)));
    }
  }
  for (auto& [number, transfer] : transfers_) {
    if (says_ended(number) == transfer.ended) continue;
    // Answers come before the event; then its bytes are there yet.
    const bool true_now = !transfer.ended && (!listens_ || failed.contains(number) ||
                                              !places_.CheckResident(transfer.pool, transfer.key));
    if (!true_now) {
      stage_.auditor.Report(fmt::format("session {} is told that transfer {} has{} ended", Raw(id_),
                                        number, transfer.ended ? " not" : ""));
    }
    if (!listens_) transfer.ended = true;
  }
  for (auto it = transfers_.upper_bound(asked_after_); it != transfers_.end(); ++it) {
    if (!it->second.failed || failed.contains(it->first)) continue;
    stage_.auditor.Report(
        fmt::format("session {} is not told that transfer {} has failed", Raw(id_), it->first));
  }
}

// Victims
// ------------------------------------------------------------------------------------------------

void SimEngine::OnVictims(const Victims& victims) {
  std::vector<Victim> told = *victims;
  if (stage_.Plants(ExecutorCanary::kVictimLost, 10)) told.pop_back();
  if (stage_.Plants(ExecutorCanary::kVictimToldTwice, 10)) told.push_back(told.back());
  if (stage_.canary == ExecutorCanary::kVictimToldLate) std::swap(told, kept_);
  victims_.IsTold(id_, told);
}

// All
// ------------------------------------------------------------------------------------------------

Bytes SimEngine::Charge() const {
  Bytes charge;
  for (const auto& [lease, leased] : leases_) charge += places_.ChargeOf(leased.key);
  for (const auto& [number, transfer] : transfers_) {
    if (!transfer.ended) charge += places_.ChargeOf(transfer.key);
  }
  return charge;
}

void SimEngine::Check() const {
  for (const auto& [lease, leased] : leases_) {
    if (const auto wrong = places_.CheckLease(leased.key, leased.slot)) {
      return stage_.auditor.Report(*wrong);
    }
  }
  if (listens_ && Charge() > most_) {
    stage_.auditor.Report(fmt::format("session {} has {} bytes of at most {}", Raw(id_),
                                      Charge().count(), most_.count()));
  }
}

void SimEngine::CheckAtRest() const {
  for (const auto& [number, transfer] : transfers_) {
    if (transfer.ended || !listens_) continue;
    stage_.auditor.Report(fmt::format("transfer {} of session {} never ends", number, Raw(id_)));
  }
}

}  // namespace moetier
