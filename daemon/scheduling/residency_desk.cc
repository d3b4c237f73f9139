// ResidencyDesk's leases, and what is common to all its calls.

#include "daemon/scheduling/residency_desk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

Error NotOpen(SessionId id) {
  return {ErrorCode::kNotFound, Reason::kUnknownSession,
          fmt::format("session {} is not open for leases and transfers", Raw(id))};
}

}  // namespace

Result<ResidencyDesk::Open> ResidencyDesk::Find(SessionId id) const {
  const Session* const session = book_.Find(id);
  if (session == nullptr) return NotOpen(id);
  if (executor_.stopping_.load()) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
  }
  const auto found = executor_.models_.find(session->model);
  if (found == executor_.models_.end() || found->second->removed) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the session's model is unloaded"};
  }
  return Open{*session, *found->second};
}

SizeClass ResidencyDesk::ClassOf(const LoadedModel& model, const ExpertKey& key) {
  return model.geometry->Find(key.layer)->size_class;
}

Bytes ResidencyDesk::ChargeOf(const LoadedModel& model, const ExpertKey& key) {
  return model.geometry->size_classes[Raw(ClassOf(model, key))].slot_bytes;
}

// Null: the model has no slots there that could be used.
const ResidencyLedger* ResidencyDesk::LedgerOf(const LoadedModel& model, const Place& place) const {
  const SizeClass size_class = ClassOf(model, place.key);
  if (place.pool == kRamPool) return model.ledgers[Raw(size_class)].get();
  const bool has_slots = model.vram != nullptr && executor_.HasDevice();
  return has_slots ? &model.vram->ledger(size_class) : nullptr;
}

SlotState ResidencyDesk::StateOf(const LoadedModel& model, const Place& place) const {
  const ResidencyLedger* const ledger = LedgerOf(model, place);
  return ledger == nullptr ? SlotState::kAbsent : ledger->StateOf(place.key);
}

void ResidencyDesk::Step(LoadedModel& model, const Place& place, const LedgerEvent& event) {
  const SizeClass size_class = ClassOf(model, place.key);
  executor_.StepIn(place.pool, model, size_class, event);
}

// Slots that are kept from calls
// ------------------------------------------------------------------------------------------------

bool ResidencyDesk::HasRoom(const LoadedModel& model, const Place& place, Keeper keeper,
                            const Claims& claims) const {
  const auto kept = kept_.find(place);
  const bool is_kept = kept != kept_.end();
  // Its slot is held already; but a transfer's wave may be waiting yet.
  if (is_kept && (kept->second.leases > 0 || keeper == Keeper::kTransfer)) return true;
  const SizeClass size_class = ClassOf(model, place.key);
  uint32_t wanted = is_kept || claims.places.contains(place) ? 0 : 1;
  if (const auto claimed = claims.counts.find({place.pool, size_class});
      claimed != claims.counts.end()) {
    wanted += claimed->second;
  }
  if (place.pool != kRamPool) {
    return model.kept_in_vram[Raw(size_class)].kept + wanted <=
           model.vram->ledger(size_class).slot_count();
  }
  // A transfer's wave waits for the calls before it. A lease does not, so it must leave them what
  // they wait for.
  if (keeper == Keeper::kLease) {
    const uint32_t waiting = claims.waiting[Raw(size_class)];
    wanted += waiting - std::min(waiting, model.SlotsForCalls());
  }
  return wanted <= model.RamRoom(size_class);
}

void ResidencyDesk::Keep(LoadedModel& model, const Place& place, Keeper keeper) {
  KeptSlots& slots = model.KeptIn(place.pool)[Raw(ClassOf(model, place.key))];
  const auto [it, first] = kept_.try_emplace(place);
  if (first) ++slots.kept;
  if (keeper == Keeper::kTransfer) {
    ++it->second.transfers;
  } else if (it->second.leases++ == 0) {
    ++slots.leased;
  }
}

void ResidencyDesk::Unkeep(LoadedModel& model, const Place& place, Keeper keeper) {
  KeptSlots& slots = model.KeptIn(place.pool)[Raw(ClassOf(model, place.key))];
  const auto found = kept_.find(place);
  MOE_CHECK(found != kept_.end(), "{} is kept by nobody", ToString(place.key));
  Keepers& keepers = found->second;
  if (keeper == Keeper::kTransfer) {
    --keepers.transfers;
  } else if (--keepers.leases == 0) {
    --slots.leased;
  }
  if (keepers.leases + keepers.transfers > 0) return;
  --slots.kept;
  kept_.erase(found);
}

// Leases
// ------------------------------------------------------------------------------------------------

// Where the key would be leased, and why it is not to be at this moment.
ResidencyDesk::Chosen ResidencyDesk::Choose(const LoadedModel& model, const ExpertKey& key,
                                            std::optional<PoolId> pool, Claims& claims) const {
  Place place{key, pool.value_or(kRamPool)};
  if (!pool && StateOf(model, place) == SlotState::kAbsent &&
      StateOf(model, {key, kDevicePool}) != SlotState::kAbsent) {
    place.pool = kDevicePool;
  }
  const SlotState state = StateOf(model, place);
  if (state == SlotState::kAbsent) {
    const bool quarantined = model.quarantine.contains(key);
    return {place, quarantined ? NotLeasedWhy::kQuarantined : NotLeasedWhy::kAbsent};
  }
  const bool loading = state == SlotState::kLoading;
  const Keeper keeper = loading ? Keeper::kTransfer : Keeper::kLease;
  if (!HasRoom(model, place, keeper, claims)) return {place, NotLeasedWhy::kNoRoom};
  if (!IsKept(place) && claims.places.insert(place).second) {
    ++claims.counts[{place.pool, ClassOf(model, key)}];
  }
  if (loading) return {place, NotLeasedWhy::kLoading};
  return {place, std::nullopt};
}

void ResidencyDesk::Acquire(const ResidencyCalls::AcquireRequest& request,
                            const Done<std::vector<LeaseOutcome>>& done) {
  const Result<Open> open = Find(request.session);
  if (!open) return done(open.error());
  LoadedModel& model = open->model;
  const SessionId session = request.session;
  const bool may_wait = request.wait.count() > 0;

  std::vector<Chosen> chosen;
  Claims claims;
  for (size_t i = 0; i < model.ledgers.size(); ++i) {
    claims.waiting[i] = model.ledgers[i]->LargestWaiting();
  }
  Bytes charge;
  bool loads = false;
  size_t may_join = book_.TransferRoom(session);
  for (const ExpertKey& key : request.keys) {
    chosen.push_back(Choose(model, key, request.pool, claims));
    const Chosen& each = chosen.back();
    bool charged = !each.why;
    if (each.why == NotLeasedWhy::kLoading) {
      loads = true;
      charged = may_wait || (!book_.TransferTo(each.place, session) && may_join > 0);
      if (charged && !may_wait) --may_join;
    }
    if (charged) charge += ChargeOf(model, key);
  }
  Status allowed = book_.CheckQuota(session, charge);
  if (allowed && loads && may_wait) allowed = CheckWaiting(session);
  if (!allowed) return done(allowed.error());

  ResidencyBook::WaitingAcquire call;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto& [place, why] = chosen[i];
    const Bytes bytes = ChargeOf(model, place.key);
    if (!why) {
      call.outcomes.emplace_back(book_.Lease(session, place, Hold(model, place), bytes));
      continue;
    }
    NotLeased refused{.why = *why};
    if (why == NotLeasedWhy::kLoading && may_wait) {
      call.loading.push_back({.index = i, .place = place, .charge = bytes});
      Ensure(model, place);
    } else if (why == NotLeasedWhy::kLoading) {
      refused.transfer = JoinIfRoom(*open, place);
    }
    call.outcomes.emplace_back(refused);
  }
  if (call.loading.empty()) return done(std::move(call.outcomes));
  call.call = request.call;
  call.deadline = executor_.clock_.Now() + request.wait;
  call.done = done;
  book_.Wait(session, std::move(call));
}

Status ResidencyDesk::CheckWaiting(SessionId session) const {
  const auto fences = std::ranges::count(fences_, session, &Fenced::session);
  return book_.CheckWaiting(session, static_cast<size_t>(fences));
}

// The key is resident there.
SlotLease ResidencyDesk::Hold(LoadedModel& model, const Place& place) {
  Keep(model, place, Keeper::kLease);
  Step(model, place, HoldKey{.key = place.key, .tenure = Tenure::kHeld});
  const SizeClass size_class = ClassOf(model, place.key);
  const ResidencyLedger& ledger = *LedgerOf(model, place);
  const SlotIndex slot = *ledger.SlotOf(place.key);
  return {.pool = place.pool,
          .slot = slot,
          .generation = ledger.View(slot).generation,
          .offset = place.pool == kRamPool ? model.arena->Offset(size_class, slot)
                                           : model.vram->Offset(size_class, slot),
          .bytes = model.geometry->Find(place.key.layer)->record.bytes};
}

void ResidencyDesk::Unhold(const std::vector<Place>& places) {
  for (const Place& place : places) {
    LoadedModel& model = *executor_.models_.at(place.key.model);
    Unkeep(model, place, Keeper::kLease);
    Step(model, place, UnholdKey{.key = place.key, .tenure = Tenure::kHeld});
  }
}

void ResidencyDesk::Release(const ResidencyCalls::ReleaseRequest& request,
                            const Done<uint32_t>& done) {
  const Result<Open> open = Find(request.session);
  if (!open) return done(open.error());
  std::vector<Place> ended;
  for (const LeaseId lease : request.leases) {
    if (const auto place = book_.EndLease(request.session, lease)) ended.push_back(*place);
  }
  auto released = static_cast<uint32_t>(ended.size());
  Unhold(ended);
  if (!request.keys.empty()) {
    const ResidencyBook::EndedLeases on_keys = book_.EndLeasesOn(request);
    released += on_keys.named;
    Unhold(on_keys.places);
    GiveUpUnwanted();
  }
  done(released);
}

void ResidencyDesk::Cancel(SessionId session, CallId call) {
  Unhold(book_.Cancel(session, call));
  GiveUpUnwanted();
  FailFences([&](const Fenced& each) { return each.session == session && each.call == call; },
             {ErrorCode::kCancelled, Reason::kCancelled, "the client has cancelled it"});
}

void ResidencyDesk::EndSession(SessionId session) {
  if (book_.Find(session) == nullptr) return;  // of the fast lane, which opens none here
  Unhold(book_.EndSession(session));
  GiveUpUnwanted();
  FailFences([&](const Fenced& each) { return each.session == session; },
             {ErrorCode::kCancelled, Reason::kCancelled, "the session has ended"});
}

Status ResidencyDesk::CheckUnleased(const LoadedModel& model) const {
  const ResidencyBook::Leased leased = book_.LeasedOf(model.id);
  if (leased.leases == 0) return CheckUnexported(model);
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               fmt::format("model `{}` is not unloaded: {} sessions hold {} leases on its slots, "
                           "which last until they are released; end these clients first",
                           model.name, leased.sessions, leased.leases)};
}

Bytes ResidencyDesk::DoubleResident(const LoadedModel& model) const {
  Bytes bytes;
  for (const auto& [place, keepers] : kept_) {
    if (place.key.model != model.id || place.pool != kRamPool || keepers.leases == 0) continue;
    const SlotState there = StateOf(model, {place.key, kDevicePool});
    if (there == SlotState::kResident) bytes += ChargeOf(model, place.key);
  }
  return bytes;
}

// Victims
// ------------------------------------------------------------------------------------------------

void ResidencyDesk::NoteVictim(PoolId pool, const KeyEvicted& evicted) {
  if (!book_.HasListener(evicted.key.model)) return;
  victims_[evicted.key.model].push_back(
      {.key = evicted.key, .pool = pool, .generation = evicted.generation});
}

void ResidencyDesk::TellVictims() {
  if (victims_.empty()) return;
  for (auto& [model, victims] : std::exchange(victims_, {})) {
    book_.TellVictims(model, std::make_shared<const std::vector<Victim>>(std::move(victims)));
  }
}

void ResidencyDesk::Settle() {
  while (HasEndedWaves()) {
    for (const ReadWave& read : std::exchange(read_, {})) OnRead(read);
    for (const auto& [wave, copied] : std::exchange(copied_, {})) OnCopied(wave, copied);
  }
  if (!to_copy_.empty()) CopyWaiting();
  if (!fences_.empty()) EndFences();
  if (const auto deadline = EarliestDeadline(); deadline && *deadline <= executor_.clock_.Now()) {
    book_.Expire(executor_.clock_.Now());
    GiveUpUnwanted();
  }
}

ResidencyBook::Leased ResidencyDesk::EndOnDevice(const Error& why) {
  const ResidencyBook::Lost lost = book_.EndLeasesIn(kDevicePool, why);
  Unhold(lost.places);
  GiveUpUnwanted();
  std::vector<Place> there;
  for (const auto& [place, transfer] : transfers_) {
    if (place.pool == kDevicePool) there.push_back(place);
  }
  for (const Place& place : there) FinishFailed(place, why, NotLeasedWhy::kAbsent);
  FailFences([](const Fenced& /*each*/) { return true; }, why);
  return lost.leased;
}

void ResidencyDesk::EndCalls(std::optional<ModelId> model, const Error& error) {
  Unhold(book_.EndCalls(model, error));
  GiveUpUnwanted();
  FailFences(
      [&](const Fenced& each) { return !model || book_.Find(each.session)->model == *model; },
      error);
}

}  // namespace moetier
