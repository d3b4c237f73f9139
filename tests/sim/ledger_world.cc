#include "tests/sim/ledger_world.h"

#include <algorithm>
#include <utility>

namespace moetier {
namespace {

constexpr const char* kPolicies[] = {"lru", "clock", "lfu:4:10", "lfu:1:0", "heat:5", "static"};
constexpr size_t kMaxPast = 64;  // completions that may be repeated

ExpertKey KeyOf(size_t size_class, uint32_t number) {
  // Even layers are of the first class, odd ones of the second.
  const auto layer = static_cast<uint16_t>(2 * (number / 8) + size_class);
  return {.model = ModelId{1},
          .layer = LayerIndex{layer},
          .expert = ExpertIndex{static_cast<uint16_t>(number % 8)}};
}

}  // namespace

LedgerWorld::LedgerWorld(uint64_t seed, Canary canary) : canary_(canary), random_(seed) {
  faults_ = {.fail_percent = random_.Percent(50) ? random_.Below(20) : 0,
             .retry_percent = random_.Below(40),
             .spurious_cancel_percent = random_.Percent(30) ? random_.Below(20) : 0,
             .late_percent = random_.Below(101)};
  clients_ = random_.Between(1, 5);
  PerClass<uint32_t> slot_counts{};
  for (size_t i = 0; i < kSimClasses; ++i) {
    ClassLimits& limits = limits_[i];
    limits.slots = random_.Between(1, 10);
    limits.largest_wave = random_.Between(1, limits.slots);
    limits.most_held = limits.slots - limits.largest_wave;
    const uint32_t keys = limits.slots + random_.Below(2 * limits.slots + 3);
    for (uint32_t key = 0; key < keys; ++key) limits.keys.push_back(KeyOf(i, key));
    slot_counts[i] = limits.slots;
  }
  port_ = MakeLedgers();
  reader_ = std::make_unique<FakeReader>(slot_counts);
  auditor_ = std::make_unique<LedgerAuditor>(*reader_, canary == Canary::kNone
                                                           ? LedgerAuditor::Scope::kAll
                                                           : LedgerAuditor::Scope::kEffects);
}

std::unique_ptr<LedgerPort> LedgerWorld::MakeLedgers() {
  PerClass<std::unique_ptr<ResidencyLedger>> ledgers;
  for (size_t i = 0; i < kSimClasses; ++i) {
    ResidencyLedger::Options options;
    options.slot_count = limits_[i].slots;
    if (random_.Percent(50)) options.retiring = Retiring::kHighest;
    options.policy = kPolicies[random_.Below(std::size(kPolicies))];
    options.keys = limits_[i].keys;
    if (random_.Percent(50)) options.hot_keys = {options.keys.front()};
    if (canary_ == Canary::kClassMixUp) {
      const std::vector<ExpertKey>& others = limits_[1 - i].keys;
      options.keys.insert(options.keys.end(), others.begin(), others.end());
    }
    ledgers[i] = ResidencyLedger::Create(std::move(options)).value();
  }
  return MakePort(canary_, std::move(ledgers));
}

std::optional<std::string> LedgerWorld::Run() {
  const uint32_t events = random_.Between(20, 400);  // a stop comes in mid-flight
  for (uint32_t i = 0; i < events && !auditor_->breach(); ++i) PlayOneEvent();
  if (!auditor_->breach()) ComeToRest();
  return auditor_->breach();
}

void LedgerWorld::PlayOneEvent() {
  const uint32_t choice = random_.Below(100);
  if (choice < 30) return AskForWave();
  if (choice < 50) return ReleaseSome();
  if (choice < 52) return EndSession(random_.Below(clients_));
  if (choice < 55) return RepeatOldCompletion();
  if (choice < 58) return LiftSome();
  if (choice < 66) return GuessSome();
  if (choice < 69) return StopGuessingSome();
  if (choice < 74) return BeginCopy();
  if (choice < 79) {
    if (!copies_.empty()) EndCopy(random_.Below(static_cast<uint32_t>(copies_.size())));
    return;
  }
  if (choice < 80) return TouchSome();
  if (choice < 81) return DropSome();
  if (choice < 83) return Shrink();
  if (choice < 85) return Grow();
  AdvanceReader(faults_);
}

void LedgerWorld::AskForWave() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  ClassLimits& limits = limits_[Raw(size_class)];
  const WaveId id{++last_wave_};
  uint32_t count = random_.Between(1, limits.largest_wave);
  ReserveWave wave{.wave = id, .keys = {}};
  if (random_.Percent(20) && limits.held < limits.most_held) {
    wave.tenure = Tenure::kHeld;
    count = std::min(random_.Between(1, limits.most_held - limits.held), limits.largest_wave);
    limits.held += count;
  }
  const std::vector<ExpertKey> keys = ChooseKeys(limits, count);
  wave.keys = keys;
  wave.admission = random_.Percent(25) ? Admission::kCold : Admission::kHot;
  owner_[id] = random_.Below(clients_);
  auditor_->Reserved(size_class, wave);
  Step(size_class, wave);
}

std::vector<ExpertKey> LedgerWorld::ChooseKeys(const ClassLimits& limits, uint32_t count) {
  std::vector<ExpertKey> keys;
  while (keys.size() < count) {
    // The lesser of two draws: low numbers are hot, as experts are.
    const uint32_t drawn =
        std::min(random_.Below(limits.keys.size()), random_.Below(limits.keys.size()));
    const ExpertKey& key = limits.keys[drawn];
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

void LedgerWorld::ReleaseSome() {
  std::vector<WaveId> candidates;
  const bool answered_only = random_.Percent(75);
  for (const auto& [id, wave] : auditor_->waves()) {
    if (wave.tenure == Tenure::kHeld && !random_.Percent(10)) continue;
    if (!answered_only || wave.unanswered == 0) candidates.push_back(id);
  }
  if (!candidates.empty()) Release(candidates[random_.Below(candidates.size())]);
}

void LedgerWorld::EndSession(uint32_t client) {
  std::vector<WaveId> ended;
  for (const auto& [wave, owner] : owner_) {
    if (owner == client) ended.push_back(wave);
  }
  for (const WaveId wave : ended) Release(wave);
}

void LedgerWorld::Release(WaveId wave) {
  const auto found = auditor_->waves().find(wave);
  if (found == auditor_->waves().end()) return;
  const SizeClass size_class = found->second.size_class;
  if (found->second.tenure == Tenure::kHeld) {
    limits_[Raw(size_class)].held -= static_cast<uint32_t>(found->second.keys.size());
  }
  owner_.erase(wave);
  auditor_->Released(wave);
  Step(size_class, ReleaseWave{.wave = wave});
}

void LedgerWorld::AdvanceReader(const FakeReader::Faults& faults) {
  const auto completion = reader_->Advance(faults, random_);
  if (!completion) return;
  if (completion->failed) auditor_->Failed(completion->read.key);
  if (past_.size() < kMaxPast) {
    past_.push_back(*completion);
  } else {
    past_[random_.Below(kMaxPast)] = *completion;
  }
  Step(completion->read.size_class, completion->event);
}

void LedgerWorld::RepeatOldCompletion() {
  if (past_.empty()) return;
  const FakeReader::Completion& old = past_[random_.Below(past_.size())];
  const SizeClass size_class = old.read.size_class;
  const uint64_t refused = port_->ledger(size_class).counts().refused_tickets;
  Step(size_class, old.event);
  if (canary_ != Canary::kNone) return;  // to be caught by what follows, not by its counters
  if (!commands_.empty() || port_->ledger(size_class).counts().refused_tickets != refused + 1) {
    auditor_->Report(
        fmt::format("a stale completion of slot {} was not refused", Raw(old.read.ticket.slot)));
  }
}

void LedgerWorld::LiftSome() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  const std::vector<ExpertKey>& keys = limits_[Raw(size_class)].keys;
  Step(size_class, LiftQuarantine{.key = keys[random_.Below(keys.size())]});
}

void LedgerWorld::GuessSome() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  const ClassLimits& limits = limits_[Raw(size_class)];
  const PrefetchRoom room = random_.Percent(70) ? PrefetchRoom::kEvict : PrefetchRoom::kFreeSlots;
  const uint32_t count = random_.Between(1, std::min(4u, limits.slots));
  for (const ExpertKey& key : ChooseKeys(limits, count)) {
    Step(size_class, Prefetch{.key = key, .room = room});
  }
}

void LedgerWorld::StopGuessingSome() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  const ClassLimits& limits = limits_[Raw(size_class)];
  Step(size_class, DropPrefetch{.key = ChooseKeys(limits, 1).front()});
}

void LedgerWorld::BeginCopy() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  const SlotIndex slot{random_.Below(limits_[Raw(size_class)].slots)};
  const ResidencyLedger::SlotView view = port_->ledger(size_class).View(slot);
  if (view.state != SlotState::kResident) return;
  ClassLimits& limits = limits_[Raw(size_class)];
  Copy copy{.size_class = size_class, .key = view.key};
  if (random_.Percent(50)) {
    const ResidencyLedger& ledger = port_->ledger(size_class);
    const bool room = limits.held < limits.most_held &&
                      limits.held + 1 + ledger.LargestWaiting() <= ledger.slot_count();
    if (!room) return;
    copy.tenure = Tenure::kHeld;
    ++limits.held;
  }
  copies_.push_back(copy);
  auditor_->CopyBegan(size_class, copy.key, slot);
  Step(size_class, HoldKey{.key = copy.key, .tenure = copy.tenure});
}

void LedgerWorld::EndCopy(size_t chosen) {
  const Copy copy = copies_[chosen];
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(chosen));
  if (copy.tenure == Tenure::kHeld) --limits_[Raw(copy.size_class)].held;
  if (random_.Percent(60)) Step(copy.size_class, DropKey{.key = copy.key});
  const bool taken_back = random_.Percent(20);
  if (taken_back) Step(copy.size_class, KeepKey{.key = copy.key});
  auditor_->CopyEnded(copy.size_class, copy.key);
  const uint64_t dropped = port_->ledger(copy.size_class).counts().dropped;
  Step(copy.size_class, UnholdKey{.key = copy.key, .tenure = copy.tenure});
  if (taken_back && canary_ == Canary::kNone &&
      port_->ledger(copy.size_class).counts().dropped != dropped) {
    auditor_->Report(fmt::format("{} is given up though it is to be kept", ToString(copy.key)));
  }
}

void LedgerWorld::TouchSome() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  const std::vector<ExpertKey> keys = ChooseKeys(limits_[Raw(size_class)], 1);
  const Admission admission = random_.Percent(25) ? Admission::kCold : Admission::kHot;
  Step(size_class, Touch{.keys = keys, .admission = admission});
}

void LedgerWorld::DropSome() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  const std::vector<ExpertKey>& keys = limits_[Raw(size_class)].keys;
  Step(size_class, DropKey{.key = keys[random_.Below(static_cast<uint32_t>(keys.size()))]});
}

// Held waves keep their slots, and every call that is asked from now on has room beside them.
void LedgerWorld::AllowWaves(ClassLimits& limits, uint32_t slots) {
  limits.largest_wave = random_.Between(1, slots - limits.held);
  limits.most_held = slots - limits.largest_wave;
}

void LedgerWorld::Shrink() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  ClassLimits& limits = limits_[Raw(size_class)];
  const uint32_t slots = port_->ledger(size_class).slot_count();
  // Other canaries ask waves again that were asked for under a larger limit.
  if (canary_ != Canary::kNone && canary_ != Canary::kRetiredSlotUsed) return;
  const uint32_t limit = random_.Between(limits.held + 1, slots);
  AllowWaves(limits, limit);
  Step(size_class, LimitSlots{.limit = limit});
}

void LedgerWorld::Grow() {
  const SizeClass size_class{static_cast<uint8_t>(random_.Below(kSimClasses))};
  ClassLimits& limits = limits_[Raw(size_class)];
  const std::vector<SlotIndex> retired = port_->ledger(size_class).RetiredSlots();
  if (retired.empty()) return;
  const SlotIndex slot = retired[random_.Below(retired.size())];
  auditor_->Restored(size_class, slot);
  Step(size_class, RestoreSlots{.first = slot, .count = 1});
  AllowWaves(limits, port_->ledger(size_class).slot_count());
}

void LedgerWorld::ComeToRest() {
  // Leases may stay: no wave waits for their slots.
  for (size_t i = copies_.size(); i > 0 && !auditor_->breach(); --i) {
    if (copies_[i - 1].tenure == Tenure::kCall) EndCopy(i - 1);
  }
  const bool clients_stay = random_.Percent(50);
  if (!clients_stay) {
    for (uint32_t client = 0; client < clients_; ++client) EndSession(client);
  }
  // Each round ends a read or releases a wave; both are bounded, so this many rounds are plenty.
  for (uint32_t round = 0; round < 10'000 && !auditor_->breach(); ++round) {
    if (!reader_->in_flight().empty()) {
      AdvanceReader({});
      continue;
    }
    std::optional<WaveId> answered;
    for (const auto& [id, wave] : auditor_->waves()) {
      if (wave.unanswered == 0 && wave.tenure == Tenure::kCall) answered = id;
    }
    if (!answered) break;
    Release(*answered);
  }
  for (const auto& [id, wave] : auditor_->waves()) {
    if (wave.unanswered == 0) continue;
    auditor_->Report(fmt::format("wave {} was never told about {} of its {} keys", Raw(id),
                                 wave.unanswered, wave.keys.size()));
  }
  for (uint32_t client = 0; client < clients_; ++client) EndSession(client);
  while (!copies_.empty() && !auditor_->breach()) EndCopy(copies_.size() - 1);
  while (!reader_->in_flight().empty() && !auditor_->breach()) AdvanceReader({});
  for (size_t i = 0; i < kSimClasses; ++i) {
    auditor_->CheckAtRest(port_->ledger(SizeClass{static_cast<uint8_t>(i)}));
  }
}

void LedgerWorld::Step(SizeClass size_class, const LedgerEvent& event) {
  ++steps_;
  commands_.clear();
  auditor_->Stepping(event);
  port_->Step(size_class, event, commands_);
  for (const LedgerCommand& command : commands_) Obey(size_class, command);
  auditor_->Check(size_class, port_->ledger(size_class));
}

void LedgerWorld::Obey(SizeClass size_class, const LedgerCommand& command) {
  if (const auto* start = std::get_if<StartRead>(&command)) {
    if (Raw(start->ticket.slot) >= limits_[Raw(size_class)].slots) {
      return auditor_->Report(fmt::format("slot {} of {} is to be read into",
                                          Raw(start->ticket.slot), limits_[Raw(size_class)].slots));
    }
    auditor_->Started(size_class, *start);
    reader_->Start({.size_class = size_class,
                    .ticket = start->ticket,
                    .key = start->key,
                    .urgency = start->urgency});
  } else if (const auto* promote = std::get_if<PromoteRead>(&command)) {
    if (!reader_->Promote(size_class, promote->ticket)) {
      auditor_->Report(fmt::format("what is no prefetch in flight is promoted, slot {}",
                                   Raw(promote->ticket.slot)));
    }
  } else if (const auto* cancel = std::get_if<CancelRead>(&command)) {
    if (!reader_->Cancel(size_class, cancel->ticket)) {
      auditor_->Report(fmt::format("a read that is not in flight is cancelled, slot {}",
                                   Raw(cancel->ticket.slot)));
    }
  } else if (const auto* ready = std::get_if<KeyReady>(&command)) {
    if (Raw(ready->slot) >= limits_[Raw(size_class)].slots) {
      return auditor_->Report(fmt::format("slot {} is ready and there is none", Raw(ready->slot)));
    }
    auditor_->Answered(*ready);
  } else if (const auto* evicted = std::get_if<KeyEvicted>(&command)) {
    auditor_->Evicted(size_class, *evicted);
  } else if (const auto* retired = std::get_if<SlotRetired>(&command)) {
    auditor_->Retired(size_class, retired->slot);
    reader_->Forget(size_class, retired->slot);
  } else {
    auditor_->Answered(std::get<KeyFailed>(command));
  }
}

}  // namespace moetier
