#include "tests/support/ledger_script.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace moetier {

ExpertKey TestKey(uint32_t number) {
  return {.model = ModelId{1},
          .layer = LayerIndex{static_cast<uint16_t>(number / 32)},
          .expert = ExpertIndex{static_cast<uint16_t>(number % 32)}};
}

std::vector<ExpertKey> TestKeys(uint32_t count) {
  std::vector<ExpertKey> keys;
  for (uint32_t i = 0; i < count; ++i) keys.push_back(TestKey(i));
  return keys;
}

LedgerScript::LedgerScript(const Options& options) {
  auto ledger = ResidencyLedger::Create({.slot_count = options.slot_count,
                                         .place_count = options.place_count,
                                         .retiring = options.retiring,
                                         .policy = options.policy,
                                         .keys = TestKeys(options.key_count),
                                         .hot_keys = options.hot_keys});
  ledger_ = std::move(ledger).value();
}

WaveId LedgerScript::Reserve(const std::vector<uint32_t>& keys, const WaveOptions& options) {
  std::vector<ExpertKey> names;
  for (const uint32_t key : keys) names.push_back(TestKey(key));
  const WaveId wave{++last_wave_};
  Step(ReserveWave{.wave = wave,
                   .keys = names,
                   .admission = options.admission,
                   .tenure = options.tenure,
                   .heat = options.heat});
  return wave;
}

void LedgerScript::Release(WaveId wave) { Step(ReleaseWave{.wave = wave}); }

void LedgerScript::Land(const Ticket& ticket) { Step(ReadLanded{.ticket = ticket}); }

void LedgerScript::End(const Ticket& ticket, ReadEnded::Why why) {
  Step(ReadEnded{.ticket = ticket, .why = why});
}

void LedgerScript::Lift(uint32_t key) { Step(LiftQuarantine{.key = TestKey(key)}); }
void LedgerScript::Hold(uint32_t key, Tenure tenure) {
  Step(HoldKey{.key = TestKey(key), .tenure = tenure});
}
void LedgerScript::Unhold(uint32_t key, Tenure tenure) {
  Step(UnholdKey{.key = TestKey(key), .tenure = tenure});
}
void LedgerScript::Touch(const std::vector<uint32_t>& keys, Admission admission) {
  std::vector<ExpertKey> names;
  for (const uint32_t key : keys) names.push_back(TestKey(key));
  Step(moetier::Touch{.keys = names, .admission = admission});
}
void LedgerScript::Drop(uint32_t key) { Step(DropKey{.key = TestKey(key)}); }
void LedgerScript::Keep(uint32_t key) { Step(KeepKey{.key = TestKey(key)}); }

void LedgerScript::Guess(uint32_t key, PrefetchRoom room) {
  Step(Prefetch{.key = TestKey(key), .room = room});
}

void LedgerScript::StopGuessing(uint32_t key) { Step(DropPrefetch{.key = TestKey(key)}); }

void LedgerScript::Limit(uint32_t slots) { Step(LimitSlots{.limit = slots}); }

void LedgerScript::Restore(SlotIndex first, uint32_t count) {
  Step(RestoreSlots{.first = first, .count = count});
}

Resolution LedgerScript::Use(uint32_t key, Admission admission) {
  const WaveId wave = Reserve({key}, {.admission = admission});
  if (!Ready(wave, 0)) Land(ReadOf(key));
  const Resolution resolution = Ready(wave, 0)->resolution;
  Release(wave);
  return resolution;
}

Ticket LedgerScript::ReadOf(uint32_t key) const {
  const auto found = reads_.find(TestKey(key));
  MOE_CHECK(found != reads_.end(), "{} was never read", ToString(TestKey(key)));
  return found->second;
}

bool LedgerScript::WasCancelled(const Ticket& ticket) const {
  return std::find(cancelled_.begin(), cancelled_.end(), ticket) != cancelled_.end();
}

bool LedgerScript::WasPromoted(const Ticket& ticket) const {
  return std::find(promoted_.begin(), promoted_.end(), ticket) != promoted_.end();
}

std::optional<KeyReady> LedgerScript::Ready(WaveId wave, uint32_t index) const {
  const auto found = ready_.find({wave, index});
  if (found == ready_.end()) return std::nullopt;
  return found->second;
}

bool LedgerScript::Failed(WaveId wave, uint32_t index) const {
  return std::find(failed_.begin(), failed_.end(), std::pair(wave, index)) != failed_.end();
}

bool LedgerScript::IsResident(uint32_t key) const {
  return ledger_->StateOf(TestKey(key)) == SlotState::kResident;
}

void LedgerScript::Step(const LedgerEvent& event) {
  commands_.clear();
  ledger_->Step(event, commands_);
  for (const LedgerCommand& command : commands_) {
    if (const auto* start = std::get_if<StartRead>(&command)) {
      ++started_;
      reads_.insert_or_assign(start->key, start->ticket);
    } else if (const auto* promote = std::get_if<PromoteRead>(&command)) {
      promoted_.push_back(promote->ticket);
    } else if (const auto* cancel = std::get_if<CancelRead>(&command)) {
      cancelled_.push_back(cancel->ticket);
    } else if (const auto* ready = std::get_if<KeyReady>(&command)) {
      const bool first = ready_.emplace(std::pair(ready->wave, ready->index), *ready).second;
      MOE_CHECK(first, "wave {} key {} is ready twice", Raw(ready->wave), ready->index);
    } else if (const auto* evicted = std::get_if<KeyEvicted>(&command)) {
      evicted_.push_back(*evicted);
    } else if (const auto* retired = std::get_if<SlotRetired>(&command)) {
      retired_.push_back(retired->slot);
    } else {
      const auto& failed = std::get<KeyFailed>(command);
      failed_.emplace_back(failed.wave, failed.index);
    }
  }
}

}  // namespace moetier
