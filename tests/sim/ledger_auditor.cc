#include "tests/sim/ledger_auditor.h"

#include <algorithm>
#include <tuple>

namespace moetier {

using Answer = LedgerAuditor::WaveRecord::Answer;

void LedgerAuditor::Reserved(SizeClass size_class, const ReserveWave& event) {
  WaveRecord& wave = waves_[event.wave];
  wave.size_class = size_class;
  wave.keys.assign(event.keys.begin(), event.keys.end());
  wave.tenure = event.tenure;
  wave.answers.resize(event.keys.size());
  wave.unanswered = event.keys.size();
}

void LedgerAuditor::Stepping(const LedgerEvent& event) {
  guessed_.reset();
  if (const auto* guess = std::get_if<Prefetch>(&event)) guessed_ = guess->key;
}

void LedgerAuditor::Started(SizeClass size_class, const StartRead& start) {
  const SlotIndex slot = start.ticket.slot;
  if (retired_.contains({size_class, slot})) {
    Report(fmt::format("slot {} is to be read into and has no memory any more", Raw(slot)));
  }
  CheckVictimTold(size_class, slot);
  if (start.urgency == Urgency::kPrefetch) CheckStartedPrefetch(size_class, start);
  for (const FakeReader::Read& read : reader_.in_flight()) {
    if (read.size_class != size_class || read.ticket.slot != slot) continue;
    Report(fmt::format("slot {} is to be read into for {} while it is written for {}", Raw(slot),
                       ToString(start.key), ToString(read.key)));
  }
  for (const auto& [id, wave] : waves_) {
    if (wave.size_class != size_class) continue;
    for (const WaveRecord::KeyRecord& key : wave.answers) {
      if (key.answer != Answer::kReady || key.slot != slot) continue;
      Report(fmt::format("slot {} is to be read into while wave {} uses it", Raw(slot), Raw(id)));
    }
  }
}

void LedgerAuditor::CheckStartedPrefetch(SizeClass size_class, const StartRead& start) {
  if (guessed_ != start.key) {
    Report(fmt::format("{} is prefetched and nobody asked for it", ToString(start.key)));
  }
  for (const auto& [id, wave] : waves_) {
    if (wave.size_class != size_class || !Lacks(wave)) continue;
    Report(
        fmt::format("{} is prefetched while wave {} waits for room", ToString(start.key), Raw(id)));
  }
}

bool LedgerAuditor::Lacks(const WaveRecord& wave) const {
  for (size_t i = 0; i < wave.keys.size(); ++i) {
    if (wave.answers[i].answer != Answer::kNone) continue;
    if (!IsOnItsWay(wave.size_class, wave.keys[i])) return true;
  }
  return false;
}

// Whoever knows that a key is in the slot hears that it has gone before the slot is used again.
void LedgerAuditor::CheckVictimTold(SizeClass size_class, SlotIndex slot) {
  const auto told = told_ready_.find({size_class, slot});
  if (told == told_ready_.end()) return;
  Report(fmt::format("slot {} is used again, and nobody was told that {} has left it", Raw(slot),
                     ToString(told->second)));
}

void LedgerAuditor::Evicted(SizeClass size_class, const KeyEvicted& evicted) {
  const SlotIndex slot = evicted.slot;
  told_ready_.erase({size_class, slot});
  const auto [before, first] = told_evicted_.try_emplace({size_class, slot}, evicted.generation);
  if (!first && before->second >= evicted.generation) {
    Report(fmt::format("{} leaves slot {} twice", ToString(evicted.key), Raw(slot)));
  }
  before->second = evicted.generation;
  const Stamp& stamp = reader_.Memory(size_class, slot);
  if (!stamp.whole || stamp.key != evicted.key) {
    Report(fmt::format("{} leaves slot {}, which has {} bytes of {}", ToString(evicted.key),
                       Raw(slot), stamp.whole ? "the" : "not all", ToString(stamp.key)));
  }
  const auto copies = copies_[size_class].equal_range(evicted.key);
  if (copies.first != copies.second) {
    Report(fmt::format("{} leaves slot {}, which is leased or copied", ToString(evicted.key),
                       Raw(slot)));
  }
}

void LedgerAuditor::Retired(SizeClass size_class, SlotIndex slot) {
  CheckVictimTold(size_class, slot);
  if (!retired_.emplace(size_class, slot).second) {
    Report(fmt::format("slot {} retires twice", Raw(slot)));
  }
  if (ReadInto(size_class, slot) != nullptr) {
    Report(fmt::format("slot {} retires while it is read into", Raw(slot)));
  }
}

void LedgerAuditor::Restored(SizeClass size_class, SlotIndex slot) {
  retired_.erase({size_class, slot});
}

LedgerAuditor::WaveRecord* LedgerAuditor::Answerable(WaveId wave, uint32_t index) {
  const auto found = waves_.find(wave);
  if (found == waves_.end()) {
    Report(fmt::format("wave {} is answered and not known, or released", Raw(wave)));
    return nullptr;
  }
  WaveRecord& record = found->second;
  if (index >= record.keys.size() || record.answers[index].answer != Answer::kNone) {
    Report(fmt::format("key {} of wave {} is none or answered twice", index, Raw(wave)));
    return nullptr;
  }
  last_answered_ = last_answered_ ? std::max(*last_answered_, wave) : wave;
  --record.unanswered;
  return &record;
}

void LedgerAuditor::Answered(const KeyReady& ready) {
  WaveRecord* wave = Answerable(ready.wave, ready.index);
  if (wave == nullptr) return;
  wave->answers[ready.index] = {Answer::kReady, ready.slot};
  told_ready_[{wave->size_class, ready.slot}] = wave->keys[ready.index];
}

void LedgerAuditor::Answered(const KeyFailed& failed) {
  WaveRecord* wave = Answerable(failed.wave, failed.index);
  if (wave == nullptr) return;
  wave->answers[failed.index].answer = Answer::kFailed;
  if (!failed_.contains(wave->keys[failed.index])) {
    Report(
        fmt::format("{} fails and never failed on the drive", ToString(wave->keys[failed.index])));
  }
}

void LedgerAuditor::Check(SizeClass size_class, const ResidencyLedger& ledger) {
  CheckUsedBytes(size_class);
  CheckCopiedBytes(size_class);
  CheckOrder(size_class);
  CheckUrgency(size_class);
  last_answered_.reset();
  if (scope_ == Scope::kEffects) return;
  CheckSlots(size_class, ledger);
  CheckReservations(size_class, ledger);
  CheckQueue(size_class, ledger);
  CheckPrefetches(size_class, ledger);
}

void LedgerAuditor::CheckUsedBytes(SizeClass size_class) {
  for (const auto& [id, wave] : waves_) {
    if (wave.size_class != size_class) continue;
    for (size_t i = 0; i < wave.keys.size(); ++i) {
      if (wave.answers[i].answer != Answer::kReady) continue;
      const SlotIndex slot = wave.answers[i].slot;
      const Stamp& stamp = reader_.Memory(size_class, slot);
      if (stamp.whole && stamp.key == wave.keys[i]) continue;
      Report(fmt::format("wave {} uses slot {} as {}, which has {} bytes of {}", Raw(id), Raw(slot),
                         ToString(wave.keys[i]), stamp.whole ? "the" : "not all",
                         ToString(stamp.key)));
    }
  }
}

void LedgerAuditor::CheckCopiedBytes(SizeClass size_class) {
  for (const auto& [key, slot] : copies_[size_class]) {
    const Stamp& stamp = reader_.Memory(size_class, slot);
    if (stamp.whole && stamp.key == key) continue;
    Report(fmt::format("slot {} is copied as {}, and has {} bytes of {}", Raw(slot), ToString(key),
                       stamp.whole ? "the" : "not all", ToString(stamp.key)));
  }
}

// A wave that was answered has been granted, and so has every wave asked before it: all that they
// still wait for must be on its way.
void LedgerAuditor::CheckOrder(SizeClass size_class) {
  if (!last_answered_) return;
  for (const auto& [id, wave] : waves_) {
    if (id >= *last_answered_) break;
    if (wave.size_class != size_class) continue;
    for (size_t i = 0; i < wave.keys.size(); ++i) {
      if (wave.answers[i].answer != Answer::kNone) continue;
      if (IsOnItsWay(size_class, wave.keys[i])) continue;
      Report(fmt::format("wave {} was overtaken by wave {}", Raw(id), Raw(*last_answered_)));
    }
  }
}

// Waves are granted in order, and one that lacks nothing has been: what it waits for is demand.
void LedgerAuditor::CheckUrgency(SizeClass size_class) {
  for (const auto& [id, wave] : waves_) {
    if (wave.size_class != size_class) continue;
    if (Lacks(wave)) return;
    for (size_t i = 0; i < wave.keys.size(); ++i) {
      if (wave.answers[i].answer != Answer::kNone) continue;
      for (const FakeReader::Read& read : reader_.in_flight()) {
        if (read.size_class != size_class || read.key != wave.keys[i] || read.cancelled) continue;
        if (read.urgency == Urgency::kDemand) continue;
        Report(fmt::format("wave {} waits for {}, which is read as a prefetch", Raw(id),
                           ToString(read.key)));
      }
    }
  }
}

const FakeReader::Read* LedgerAuditor::ReadInto(SizeClass size_class, SlotIndex slot) const {
  for (const FakeReader::Read& read : reader_.in_flight()) {
    if (read.size_class == size_class && read.ticket.slot == slot) return &read;
  }
  return nullptr;
}

bool LedgerAuditor::IsOnItsWay(SizeClass size_class, const ExpertKey& key) const {
  const std::vector<FakeReader::Read>& reads = reader_.in_flight();
  return std::any_of(reads.begin(), reads.end(), [&](const FakeReader::Read& read) {
    return read.size_class == size_class && read.key == key && !read.cancelled;
  });
}

void LedgerAuditor::CheckSlots(SizeClass size_class, const ResidencyLedger& ledger) {
  LedgerCounts seen;
  std::set<ExpertKey> live;
  for (uint32_t i = 0; i < ledger.place_count(); ++i) {
    const ResidencyLedger::SlotView slot = ledger.View(SlotIndex{i});
    if (slot.reservations > 0) ++seen.reserved;
    switch (slot.state) {
      case SlotState::kAbsent:
        ++seen.free;
        break;
      case SlotState::kLoading:
        ++seen.loading;
        break;
      case SlotState::kResident:
        ++seen.resident;
        break;
      case SlotState::kDraining:
        ++seen.draining;
        break;
      case SlotState::kRetired:
        ++seen.retired;
        break;
      case SlotState::kEvicting:
        Report(fmt::format("slot {} is between two states after a step", i));
        break;
    }
    if (slot.state != SlotState::kLoading && slot.state != SlotState::kResident) continue;
    if (!live.insert(slot.key).second) {
      Report(fmt::format("{} has two live slots, one of them {}", ToString(slot.key), i));
    }
    if (ledger.SlotOf(slot.key) != SlotIndex{i}) {
      Report(
          fmt::format("{} is in slot {}, and the ledger does not find it", ToString(slot.key), i));
    }
    const Stamp& stamp = reader_.Memory(size_class, SlotIndex{i});
    if (slot.state == SlotState::kResident && (!stamp.whole || stamp.key != slot.key)) {
      Report(fmt::format("slot {} is resident as {} and has {} bytes of {}", i, ToString(slot.key),
                         stamp.whole ? "the" : "not all", ToString(stamp.key)));
    }
  }
  const LedgerCounts counts = ledger.counts();
  if (seen.free + seen.loading + seen.resident + seen.draining + seen.retired !=
          ledger.place_count() ||
      std::tie(seen.free, seen.loading, seen.resident, seen.draining, seen.retired,
               seen.reserved) != std::tie(counts.free, counts.loading, counts.resident,
                                          counts.draining, counts.retired, counts.reserved)) {
    Report("the counts are not those of the slots");
  }
}

void LedgerAuditor::CheckReservations(SizeClass size_class, const ResidencyLedger& ledger) {
  std::vector<uint32_t> holders(ledger.place_count());
  for (const auto& [id, wave] : waves_) {
    if (wave.size_class != size_class) continue;
    for (const WaveRecord::KeyRecord& key : wave.answers) {
      if (key.answer == Answer::kReady) ++holders[Raw(key.slot)];
    }
  }
  for (const auto& [key, slot] : copies_[size_class]) ++holders[Raw(slot)];
  for (uint32_t i = 0; i < ledger.place_count(); ++i) {
    const ResidencyLedger::SlotView slot = ledger.View(SlotIndex{i});
    const FakeReader::Read* const read = ReadInto(size_class, SlotIndex{i});
    const bool prefetch = read != nullptr && read->urgency == Urgency::kPrefetch;
    if (slot.state == SlotState::kLoading ? (slot.reservations == 0) != prefetch
                                          : slot.reservations != holders[i]) {
      Report(fmt::format("slot {} has {} reservations and {} holders", i, slot.reservations,
                         holders[i]));
    }
  }
}

// Granted waves stand before those that wait, and the first that waits has no room.
void LedgerAuditor::CheckQueue(SizeClass size_class, const ResidencyLedger& ledger) {
  const LedgerCounts counts = ledger.counts();
  std::vector<const WaveRecord*> asked;
  for (const auto& [id, wave] : waves_) {
    if (wave.size_class == size_class) asked.push_back(&wave);
  }
  if (asked.size() != size_t{counts.granted_waves} + counts.waiting_waves) {
    return Report(fmt::format("{} waves are asked for; the ledger has {} granted and {} waiting",
                              asked.size(), counts.granted_waves, counts.waiting_waves));
  }
  if (counts.waiting_waves == 0) return;
  const WaveRecord& first = *asked[counts.granted_waves];
  uint32_t needed = 0;
  uint32_t room = counts.free;
  bool could_cancel = false;
  for (uint32_t i = 0; i < ledger.place_count(); ++i) {
    const ResidencyLedger::SlotView slot = ledger.View(SlotIndex{i});
    const bool own = std::find(first.keys.begin(), first.keys.end(), slot.key) != first.keys.end();
    if (slot.reservations > 0 || own) continue;
    if (slot.state == SlotState::kResident) ++room;
    if (slot.state == SlotState::kLoading) could_cancel = true;
  }
  for (const ExpertKey& key : first.keys) {
    if (ledger.StateOf(key) == SlotState::kAbsent && !ledger.IsQuarantined(key)) ++needed;
  }
  if (needed <= room) {
    Report(fmt::format("the first wave waits for {} slots though {} can be had", needed, room));
  }
  if (could_cancel && needed > room + counts.draining) {
    Report("the first wave waits while a prefetch that nobody waits for goes on");
  }
}

// Each prefetch that was started is used, wasted, or still to be either.
void LedgerAuditor::CheckPrefetches(SizeClass size_class, const ResidencyLedger& ledger) {
  const LedgerCounts counts = ledger.counts();
  uint64_t unused = 0;
  for (uint32_t i = 0; i < ledger.place_count(); ++i) {
    const ResidencyLedger::SlotView slot = ledger.View(SlotIndex{i});
    if (slot.unused) ++unused;
    const bool live = slot.state == SlotState::kLoading || slot.state == SlotState::kResident;
    if ((slot.unused || slot.expected) && !live) {
      Report(fmt::format("slot {} holds nothing that could be used or expected", i));
    }
    // A copy to another tier is no use.
    const auto copies =
        std::count_if(copies_[size_class].begin(), copies_[size_class].end(),
                      [i](const auto& copy) { return copy.second == SlotIndex{i}; });
    if (slot.unused && slot.reservations > static_cast<uint32_t>(copies)) {
      Report(fmt::format("slot {} is reserved and counts as unused", i));
    }
  }
  const uint64_t started = counts.prefetched + counts.preheated;
  const uint64_t used = counts.prefetch_used + counts.preheat_used;
  const uint64_t wasted = counts.prefetch_wasted + counts.preheat_wasted;
  if (started != used + wasted + unused || counts.preheating > counts.prefetching ||
      counts.prefetch_late > counts.prefetch_used) {
    Report(fmt::format("{} prefetches: {} used, {} of them late, {} wasted, {} left",
                       counts.prefetched, counts.prefetch_used, counts.prefetch_late,
                       counts.prefetch_wasted, unused));
  }
}

void LedgerAuditor::CheckAtRest(const ResidencyLedger& ledger) {
  if (scope_ == Scope::kEffects) return;
  const LedgerCounts counts = ledger.counts();
  if (ledger.place_count() - counts.retired != ledger.slot_count()) {
    Report(fmt::format("at rest {} of {} slots have retired, the limit is {}", counts.retired,
                       ledger.place_count(), ledger.slot_count()));
  }
  if (counts.loading + counts.draining + counts.reserved + counts.held + counts.waiting_waves +
          counts.granted_waves !=
      0) {
    Report(
        fmt::format("at rest {} slots load, {} drain, {} are reserved and {} held; {} waves wait "
                    "and {} are granted",
                    counts.loading, counts.draining, counts.reserved, counts.held,
                    counts.waiting_waves, counts.granted_waves));
  }
}

}  // namespace moetier
