#include "tiers/residency_ledger.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace moetier {
namespace {

Error BadOptions(std::string message) {
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig, std::move(message)};
}

}  // namespace

// Creation
// ---------------------------------------------------------------------------------------------

Result<std::unique_ptr<ResidencyLedger>> ResidencyLedger::Create(Options options) {
  if (options.slot_count == 0) return BadOptions("a ledger of 0 slots; raise the model's budget");
  options.place_count = std::max(options.place_count, options.slot_count);
  if (options.keys.empty()) return BadOptions("a ledger of 0 keys; the model has no such experts");
  std::unordered_map<ExpertKey, KeyIndex> indices;
  for (const ExpertKey& key : options.keys) {
    const KeyIndex next{static_cast<uint32_t>(indices.size())};
    if (!indices.emplace(key, next).second) {
      return BadOptions(fmt::format("{} stands twice among the ledger's keys", ToString(key)));
    }
  }
  std::vector<KeyIndex> hot;
  for (const ExpertKey& key : options.hot_keys) {
    const auto found = indices.find(key);
    if (found == indices.end()) {
      return BadOptions(fmt::format("hot {} is not among the ledger's keys", ToString(key)));
    }
    hot.push_back(found->second);
  }
  if (!options.prior.empty() && options.prior.size() != options.keys.size()) {
    return BadOptions(
        fmt::format("a prior of {} heats for {} keys", options.prior.size(), options.keys.size()));
  }
  const EvictionPolicy::Sizes sizes{.slot_count = options.place_count,
                                    .key_count = static_cast<uint32_t>(options.keys.size()),
                                    .used_at_first = options.slot_count};
  ASSIGN_OR_RETURN(
      std::unique_ptr<EvictionPolicy> policy,
      EvictionPolicy::Create(options.policy, sizes, {.hot = hot, .heat = options.prior}));
  return std::unique_ptr<ResidencyLedger>(
      new ResidencyLedger(std::move(options), std::move(indices), std::move(policy)));
}

ResidencyLedger::ResidencyLedger(Options options, std::unordered_map<ExpertKey, KeyIndex> indices,
                                 std::unique_ptr<EvictionPolicy> policy)
    : policy_name_(std::move(options.policy)),
      policy_(std::move(policy)),
      key_index_(std::move(indices)),
      slots_(options.place_count),
      limit_(options.slot_count),
      retiring_(options.retiring) {
  std::set<LayerIndex> layers;
  keys_.reserve(options.keys.size());
  for (const ExpertKey& name : options.keys) {
    keys_.emplace_back(name);
    layers.insert(name.layer);
  }
  layers_ = layers.size();
  free_.reserve(slots_.size());
  unjoined_.reserve(slots_.size());
  for (uint32_t i = slot_count(); i > 0; --i) free_.push_back(SlotIndex{i - 1});
  for (uint32_t i = slot_count(); i < place_count(); ++i) slots_[i].state = SlotState::kRetired;
  counts_.free = slot_count();
  counts_.retired = place_count() - slot_count();
}

ResidencyLedger::~ResidencyLedger() = default;

// Events
// -----------------------------------------------------------------------------------------------

void ResidencyLedger::Step(const LedgerEvent& event, CommandList& out) {
  std::visit([&](const auto& each) { On(each, out); }, event);
  RetireExcess(out);
  if (first_waiting_ != nullptr) CancelGuessesFor(*first_waiting_, out);
}

void ResidencyLedger::On(const ReserveWave& event, CommandList& out) {
  Wave& wave = NewWave(event);
  (last_waiting_ == nullptr ? first_waiting_ : last_waiting_->next_waiting) = &wave;
  last_waiting_ = &wave;
  ++counts_.waiting_waves;
  GrantWaiting(out);
}

void ResidencyLedger::On(const ReleaseWave& event, CommandList& out) {
  const auto found = waves_.find(event.wave);
  MOE_CHECK(found != waves_.end(), "wave {} is released and not known", Raw(event.wave));
  Wave& wave = found->second;
  if (wave.granted) {
    GiveBack(wave, out);
  } else {
    RemoveWaiting(wave);
  }
  // Waves granted by this release may still join its reads; what nobody joins is cancelled.
  GrantWaiting(out);
  if (wave.granted) CancelOrphans(wave, out);
  spare_waves_.push_back(waves_.extract(found));
}

void ResidencyLedger::On(const ReadLanded& event, CommandList& out) {
  const std::optional<SlotIndex> slot = Redeem(event.ticket);
  if (!slot) return;
  const Key& key = At(At(*slot).key);
  if (At(*slot).state == SlotState::kLoading) {
    Land(*slot, out);
  } else if (!key.slot && !key.quarantined) {
    KeepDrained(*slot);
  } else {
    Free(*slot);
  }
  GrantWaiting(out);
}

void ResidencyLedger::On(const ReadEnded& event, CommandList& out) {
  const std::optional<SlotIndex> slot = Redeem(event.ticket);
  if (!slot) return;
  const bool failed = event.why == ReadEnded::Why::kFailed;
  if (At(*slot).state == SlotState::kLoading) {
    const bool waited_for = At(*slot).reservations > 0;
    if (!failed && waited_for) {
      ++counts_.restarted_reads;
      return StartReading(*slot, Urgency::kDemand, out);
    }
    if (failed) {
      Fail(*slot, out);
    } else {
      Forgo(*slot);
    }
  } else {
    Key& key = At(At(*slot).key);
    // If it is being read again, that read decides.
    if (failed && !key.slot) Quarantine(key);
    Free(*slot);
  }
  GrantWaiting(out);
}

void ResidencyLedger::On(const LiftQuarantine& event, CommandList& /*out*/) {
  Key& key = At(IndexOf(event.key));
  if (key.quarantined) --counts_.quarantined;
  key.quarantined = false;
}

void ResidencyLedger::On(const HoldKey& event, CommandList& /*out*/) {
  const Key& key = At(IndexOf(event.key));
  MOE_CHECK(key.slot && At(*key.slot).state == SlotState::kResident, "{} is held, not resident",
            ToString(event.key));
  Reserve(*key.slot, event.tenure);
}

void ResidencyLedger::On(const UnholdKey& event, CommandList& out) {
  const Key& key = At(IndexOf(event.key));
  MOE_CHECK(key.slot, "{} is not held", ToString(event.key));
  Unreserve(*key.slot, event.tenure, out);
  GrantWaiting(out);
}

void ResidencyLedger::On(const Touch& event, CommandList& /*out*/) {
  for (const ExpertKey& name : event.keys) {
    const KeyIndex index = IndexOf(name);
    const Key& key = At(index);
    policy_->Observe(index, calls_granted_ / layers_, event.heat);
    if (key.quarantined) {
      ++counts_.failed;
    } else if (!key.slot) {
      ++counts_.misses;
    } else {
      ++(At(*key.slot).state == SlotState::kLoading ? counts_.in_flight : counts_.hits);
      if (event.admission == Admission::kHot) policy_->Touch(*key.slot);
    }
  }
  if (event.admission == Admission::kHot) ++calls_granted_;
}

void ResidencyLedger::On(const DropKey& event, CommandList& out) {
  const Key& key = At(IndexOf(event.key));
  if (!key.slot || At(*key.slot).state != SlotState::kResident) return;
  At(*key.slot).dropped = true;
  if (!IsEvictable(At(*key.slot))) return;
  GiveUp(*key.slot, out);
  GrantWaiting(out);
}

void ResidencyLedger::On(const KeepKey& event, CommandList& /*out*/) {
  if (const Key& key = At(IndexOf(event.key)); key.slot) At(*key.slot).dropped = false;
}

// Waves
// ------------------------------------------------------------------------------------------------

ResidencyLedger::Wave& ResidencyLedger::NewWave(const ReserveWave& event) {
  MOE_CHECK(!event.keys.empty() && event.keys.size() <= ActiveSlots(),
            "wave {} asks for {} keys of a ledger with {} slots", Raw(event.wave),
            event.keys.size(), ActiveSlots());
  MOE_CHECK(event.heat.empty() || event.heat.size() == event.keys.size(),
            "wave {} gives {} heats for {} keys", Raw(event.wave), event.heat.size(),
            event.keys.size());
  if (spare_waves_.empty()) {
    WaveMap fresh;
    fresh.try_emplace(event.wave);
    spare_waves_.push_back(fresh.extract(fresh.begin()));
  }
  WaveMap::node_type node = std::move(spare_waves_.back());
  spare_waves_.pop_back();
  node.key() = event.wave;
  const auto inserted = waves_.insert(std::move(node));
  MOE_CHECK(inserted.inserted, "wave {} is in use", Raw(event.wave));
  Wave& wave = inserted.position->second;
  wave.id = event.wave;
  wave.admission = event.admission;
  wave.tenure = event.tenure;
  wave.granted = false;
  wave.next_waiting = nullptr;
  wave.holds.clear();
  ++waves_asked_;
  for (const ExpertKey& name : event.keys) {
    const KeyIndex key = IndexOf(name);
    MOE_CHECK(At(key).asked_at != waves_asked_, "wave {} names {} twice", Raw(wave.id),
              ToString(name));
    At(key).asked_at = waves_asked_;
    const auto index = static_cast<uint32_t>(wave.holds.size());
    wave.holds.push_back({.key = key,
                          .index = index,
                          .heat = event.heat.empty() ? 1 : event.heat[index],
                          .wave = &wave});
  }
  return wave;
}

void ResidencyLedger::RemoveWaiting(Wave& wave) {
  Wave* before = nullptr;
  for (Wave* each = first_waiting_; each != &wave; each = each->next_waiting) before = each;
  (before == nullptr ? first_waiting_ : before->next_waiting) = wave.next_waiting;
  if (last_waiting_ == &wave) last_waiting_ = before;
  --counts_.waiting_waves;
}

void ResidencyLedger::GiveBack(Wave& wave, CommandList& out) {
  for (const Hold& hold : wave.holds) {
    if (hold.state == Hold::State::kFailed) continue;
    if (hold.state == Hold::State::kWaiting) RemoveWaiter(hold);
    Unreserve(hold, out);
  }
  --counts_.granted_waves;
}

void ResidencyLedger::GrantWaiting(CommandList& out) {
  while (first_waiting_ != nullptr && SlotsLacking(*first_waiting_) == 0) {
    Wave& wave = *first_waiting_;
    RemoveWaiting(wave);
    Grant(wave, out);
  }
}

size_t ResidencyLedger::SlotsLacking(const Wave& wave) const {
  size_t needed = 0;
  size_t obtainable = free_.size() + evictable_;
  for (const Hold& hold : wave.holds) {
    const Key& key = At(hold.key);
    if (!key.slot) {
      if (!key.quarantined) ++needed;
    } else if (IsEvictable(At(*key.slot))) {
      --obtainable;  // the wave itself uses it
    }
  }
  return needed - std::min(needed, obtainable);
}

void ResidencyLedger::Grant(Wave& wave, CommandList& out) {
  wave.granted = true;
  ++counts_.granted_waves;
  // First all reservations on what is here, so that no victim is a key of the wave itself.
  ReserveWhatIsHere(wave, out);
  for (Hold& hold : wave.holds) AnswerOrLoad(hold, out);
}

void ResidencyLedger::ReserveWhatIsHere(Wave& wave, CommandList& out) {
  const bool is_call = wave.tenure == Tenure::kCall;
  for (Hold& hold : wave.holds) {
    if (const Key& key = At(hold.key); key.slot) {
      UseGuess(*key.slot, out);
      Reserve(hold, *key.slot);
    }
    if (is_call) policy_->Observe(hold.key, calls_granted_ / layers_, hold.heat);
  }
  if (is_call && wave.admission == Admission::kHot) ++calls_granted_;
}

void ResidencyLedger::AnswerOrLoad(Hold& hold, CommandList& out) {
  const Key& key = At(hold.key);
  const Wave& wave = *hold.wave;
  const uint64_t counted = wave.tenure == Tenure::kCall ? 1 : 0;
  if (key.quarantined) {
    hold.state = Hold::State::kFailed;
    counts_.failed += counted;
    out.push_back(KeyFailed{.wave = wave.id, .index = hold.index});
    return;
  }
  if (!key.slot) {
    hold.resolution = Resolution::kMiss;
    counts_.misses += counted;
    return Load(hold, out);
  }
  if (wave.admission == Admission::kHot) policy_->Touch(*key.slot);
  if (At(*key.slot).state == SlotState::kLoading) {
    hold.resolution = Resolution::kInFlight;
    counts_.in_flight += counted;
    return AddWaiter(hold);
  }
  hold.resolution = Resolution::kHit;
  hold.state = Hold::State::kReady;
  counts_.hits += counted;
  out.push_back(KeyReady{wave.id, hold.index, hold.slot, hold.resolution});
}

void ResidencyLedger::Reserve(Hold& hold, SlotIndex index) {
  hold.slot = index;
  Reserve(index, hold.wave->tenure);
}

void ResidencyLedger::Unreserve(const Hold& hold, CommandList& out) {
  Unreserve(hold.slot, hold.wave->tenure, out);
}

void ResidencyLedger::AddWaiter(Hold& hold) {
  hold.state = Hold::State::kWaiting;
  hold.next_waiter = nullptr;
  Hold** last = &At(hold.slot).first_waiter;
  while (*last != nullptr) last = &(*last)->next_waiter;
  *last = &hold;
}

void ResidencyLedger::RemoveWaiter(const Hold& hold) {
  Hold** place = &At(hold.slot).first_waiter;
  while (*place != &hold) place = &(*place)->next_waiter;
  *place = hold.next_waiter;
}

void ResidencyLedger::CancelOrphans(const Wave& wave, CommandList& out) {
  for (const Hold& hold : wave.holds) {
    if (hold.state != Hold::State::kWaiting) continue;
    if (At(hold.slot).reservations == 0) Cancel(hold.slot, out);
  }
}

// Queries
// ----------------------------------------------------------------------------------------------

LedgerCounts ResidencyLedger::counts() const {
  LedgerCounts counts = counts_;
  counts.prefetching = static_cast<uint32_t>(unjoined_.size());
  counts.preheating = static_cast<uint32_t>(
      std::ranges::count_if(unjoined_, [this](SlotIndex index) { return At(index).preheat; }));
  return counts;
}

SlotState ResidencyLedger::StateOf(const ExpertKey& key) const {
  const std::optional<SlotIndex> slot = SlotOf(key);
  return slot ? At(*slot).state : SlotState::kAbsent;
}

std::optional<SlotIndex> ResidencyLedger::SlotOf(const ExpertKey& key) const {
  return At(IndexOf(key)).slot;
}

ResidencyLedger::SlotView ResidencyLedger::View(SlotIndex index) const {
  MOE_CHECK(Raw(index) < slots_.size(), "slot {} of {}", Raw(index), slots_.size());
  const Slot& slot = At(index);
  return {.state = slot.state,
          .generation = slot.generation,
          .reservations = slot.reservations,
          .key = At(slot.key).name,
          .unused = slot.unused,
          .expected = slot.expected,
          .dropped = slot.dropped};
}

bool ResidencyLedger::IsQuarantined(const ExpertKey& key) const {
  return At(IndexOf(key)).quarantined;
}

std::vector<ExpertKey> ResidencyLedger::QuarantinedKeys() const {
  std::vector<ExpertKey> quarantined;
  for (const Key& key : keys_) {
    if (key.quarantined) quarantined.push_back(key.name);
  }
  return quarantined;
}

KeyIndex ResidencyLedger::IndexOf(const ExpertKey& key) const {
  const auto found = key_index_.find(key);
  MOE_CHECK(found != key_index_.end(), "{} is not one of this ledger's {} keys", ToString(key),
            keys_.size());
  return found->second;
}

}  // namespace moetier
