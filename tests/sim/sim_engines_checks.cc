// SimEngines' checks: whether what it is told is so.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "tests/sim/sim_engine_calls.h"
#include "tests/sim/sim_engines.h"

namespace moetier {

// Leases
// ------------------------------------------------------------------------------------------------

// Once it has taken what it could; later there may be more.
void SimEngines::LookForRoom(AcquireCall& call) const {
  if (std::exchange(call.looked_at, true)) return;
  for (size_t i = 0; i < call.stood.size(); ++i) {
    AcquireCall::Stood& stood = call.stood[i];
    if (stood.state == SlotState::kAbsent) continue;
    stood.full = places_.IsFull(
        stood.pool, call.request.keys[i],
        stood.state == SlotState::kLoading ? SimPlaces::For::kTransfer : SimPlaces::For::kLease);
  }
}

void SimEngines::TakeOutcomes(AcquireCall& call, const std::vector<LeaseOutcome>& outcomes) {
  LookForRoom(call);
  if (outcomes.size() != call.request.keys.size()) {
    return stage_.auditor.Report(
        fmt::format("{} has {} outcomes", call.call->what, outcomes.size()));
  }
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (const auto* lease = std::get_if<SlotLease>(&outcomes[i])) {
      TakeLease(call, i, *lease);
    } else {
      TakeRefusal(call, i, std::get<NotLeased>(outcomes[i]));
    }
  }
}

void SimEngines::TakeLease(const AcquireCall& call, size_t index, const SlotLease& lease) {
  const AcquireCall::Stood& stood = call.stood[index];
  if (lease.pool != stood.pool || stood.state == SlotState::kAbsent) {
    stage_.auditor.Report(fmt::format("{} leases what was absent", call.call->what));
  }
  if (!leases_given_.insert(lease.lease).second) {
    stage_.auditor.Report(fmt::format("the number of lease {} is used again", Raw(lease.lease)));
  }
  const ExpertKey& key = call.request.keys[index];
  if (call.call->released.contains({key, lease.pool})) {
    stage_.auditor.Report(
        fmt::format("{} leases {}, released since", call.call->what, ToString(key)));
  }
  call.call->engine->Take(key, lease,
                          call.lost ? SimEngine::Answer::kLost : SimEngine::Answer::kHeard);
}

void SimEngines::TakeRefusal(const AcquireCall& call, size_t index, const NotLeased& refusal) {
  const AcquireCall::Stood& stood = call.stood[index];
  const ExpertKey& key = call.request.keys[index];
  SimMachine& machine = stage_.machine;
  const bool loaded = stood.state == SlotState::kLoading;
  const bool waited = call.request.wait.count() > 0;
  bool explained = false;
  switch (refusal.why) {
    case NotLeasedWhy::kAbsent:
      explained = loaded ? waited && stood.pool == kDevicePool &&
                               (machine.device()->HasFailed() || machine.device()->lost())
                         : stood.state == SlotState::kAbsent && !stood.quarantined;
      break;
    case NotLeasedWhy::kQuarantined:
      explained = loaded ? waited && machine.drive().Spoilt(key)
                         : stood.state == SlotState::kAbsent && stood.quarantined;
      break;
    case NotLeasedWhy::kLoading:
      explained = loaded && refusal.transfer.has_value() &&
                  machine.clock.at() >= call.call->begun + call.request.wait;
      if (refusal.transfer) call.call->engine->Join(*refusal.transfer, stood.pool, key);
      break;
    case NotLeasedWhy::kNoRoom:
      explained = stood.state != SlotState::kAbsent && stood.full;
      break;
  }
  if (explained) return;
  stage_.auditor.Report(fmt::format("{}: no lease of {} in pool {}, why {}, and it stood {}",
                                    call.call->what, ToString(key), Raw(stood.pool),
                                    static_cast<int>(refusal.why), static_cast<int>(stood.state)));
}

// Transfers and routes
// ------------------------------------------------------------------------------------------------

void SimEngines::TakeTransfer(const TransferCall& call, size_t index,
                              const TransferOutcome& outcome) {
  const ExpertKey& key = call.request.keys[index];
  const PoolId to = call.request.to;
  if (const auto* error = std::get_if<Error>(&outcome)) {
    if (IsExplained(call, index, *error)) return;
    return stage_.auditor.Report(fmt::format("{}: {}", call.call->what, error->message));
  }
  if (const auto* number = std::get_if<TransferId>(&outcome)) {
    if (call.generations[index]) {
      stage_.auditor.Report(call.call->what + " brings what is there");
    }
    return call.call->engine->Join(*number, to, key);
  }
  const uint32_t generation = std::get<InPlace>(outcome).generation;
  const bool is_there = places_.GenerationOf(to, key) == generation;
  if (is_there && generation == call.generations[index]) return;
  stage_.auditor.Report(fmt::format("{}: {} is not in place", call.call->what, ToString(key)));
}

bool SimEngines::IsExplained(const TransferCall& call, size_t index, const Error& error) const {
  const ExpertKey& key = call.request.keys[index];
  const PoolId to = call.request.to;
  const LoadedModel& model = *stage_.machine.model();
  if (error.code == ErrorCode::kUnavailable) {
    return to == kDevicePool && stage_.machine.IsLossKnown();
  }
  if (error.code == ErrorCode::kFailedPrecondition) return to == kDevicePool && !model.vram;
  switch (error.reason) {
    case Reason::kQuarantined:
      return places_.IsQuarantined(key) && places_.StateOf(kRamPool, key) == SlotState::kAbsent;
    case Reason::kQuota:
      return MostCharge(*call.call->engine) + places_.ChargeOf(key) > call.call->engine->most();
    case Reason::kNoRoom:
      return places_.IsFull(to, key, SimPlaces::For::kTransfer) ||
             (to == kDevicePool && places_.IsFull(kRamPool, key, SimPlaces::For::kTransfer));
    default:
      return false;
  }
}

void SimEngines::TakeRoute(const std::vector<ExpertKey>& keys,
                           const std::vector<RoutedExpert>& routed) {
  bool right = routed.size() == keys.size();
  for (size_t i = 0; right && i < keys.size(); ++i) {
    const bool resident = places_.StateOf(kRamPool, keys[i]) == SlotState::kResident ||
                          places_.StateOf(kDevicePool, keys[i]) == SlotState::kResident;
    right = routed[i].expert == keys[i].expert &&
            (routed[i].residence == Residence::kResident) == resident;
  }
  if (!right) stage_.auditor.Report("a Route tells of other experts, or otherwise than they are");
}

// Refusals of whole calls
// ------------------------------------------------------------------------------------------------

void SimEngines::TakeError(const Call& call, const Error& error) {
  stage_.trace.Say("{} fails: {}", call.what, error.message);
  bool explained = false;
  switch (error.reason) {
    case Reason::kDraining:
      explained = stage_.machine.stopping;
      break;
    case Reason::kCancelled:
      explained = call.engine->ending() || call.cancelled || !call.released.empty();
      break;
    case Reason::kDeviceLost:
      explained = call.may_lose && stage_.machine.IsLossKnown();
      break;
    case Reason::kQuota:
      explained = MostCharge(*call.engine) + call.most_charge > call.engine->most();
      break;
    default:
      break;
  }
  if (!explained) stage_.auditor.Report(fmt::format("{} fails: {}", call.what, error.message));
}

// What it may be charged for by now: calls that wait are charged for what they wait for.
Bytes SimEngines::MostCharge(const SimEngine& engine) const {
  Bytes most = engine.Charge();
  for (const CallPtr& call : calls_) {
    if (call->engine.get() == &engine && call->answers == 0) most += call->most_charge;
  }
  return most;
}

// Checks
// ------------------------------------------------------------------------------------------------

// The faults of canaries in what is leased.
void SimEngines::Spoil() {
  for (const EnginePtr& engine : engines_) {
    if (stage_.Plants(ExecutorCanary::kLeasedBytesChanged, 5)) engine->SpoilLease();
    if (stage_.Plants(ExecutorCanary::kLeaseForgotten, 5)) engine->ForgetLease();
    const SimDevice* const device = stage_.machine.device();
    const bool news = device != nullptr && device->HasNews();
    if (news && stage_.Plants(ExecutorCanary::kLeaseOutlivesLoss, 20)) engine->KeepLease();
  }
}

void SimEngines::Look() {
  Spoil();
  std::erase_if(calls_, [](const CallPtr& call) { return call->answers > 0; });
  SeeLoss();
  for (const EnginePtr& engine : engines_) engine->Check();
  victims_.Look();
  const LoadedModel* const model = stage_.machine.model();
  if (model == nullptr) return;
  CheckRoom(*model);
  if (loss_seen_) CheckLost(*model);
}

// At the moment when the executor knows of the loss, before the next message.
void SimEngines::SeeLoss() {
  if (loss_seen_ || !stage_.machine.IsLossKnown()) return;
  loss_seen_ = true;
  for (const EnginePtr& engine : engines_) engine->SeeLoss();
}

// Nobody has or awaits anything on the device any more.
void SimEngines::CheckLost(const LoadedModel& model) const {
  for (uint8_t i = 0; model.vram && i < model.vram->class_count(); ++i) {
    const uint32_t held = model.vram->ledger(SizeClass{i}).counts().held;
    const KeptSlots& kept = model.kept_in_vram[i];
    if (held + kept.kept + kept.leased == 0) continue;
    stage_.auditor.Report(
        fmt::format("class {} of the lost device has {} slots held, {} kept and {} leased", i, held,
                    kept.kept, kept.leased));
  }
  if (AwaitDevice()) stage_.auditor.Report("a call waits for a device that is lost");
}

// What is leased and awaited leaves calls their slots, as what is pinned does.
void SimEngines::CheckRoom(const LoadedModel& model) const {
  // A call that waits for some keys has others leased already.
  const bool waits = HasWaitingAcquire();
  for (const PoolId pool : SimPlaces::kPools) {
    for (uint8_t i = 0; i < model.ledgers.size(); ++i) {
      const ResidencyLedger* const ledger = places_.LedgerOf(pool, SizeClass{i});
      if (ledger == nullptr) continue;
      const KeptSlots& kept = model.KeptIn(pool)[i];
      const size_t leased = Leased(pool, SizeClass{i}).size();
      const uint32_t pinned = pool == kRamPool ? model.pinned[i] : 0;
      const uint32_t for_calls = pool == kRamPool ? model.SlotsForCalls() : 0;
      const bool fits =
          kept.kept + pinned == 0 || kept.kept + pinned + for_calls <= ledger->slot_count();
      const bool counted = waits ? kept.leased >= leased : kept.leased == leased;
      if (counted && kept.kept >= leased && fits) continue;
      stage_.auditor.Report(fmt::format(
          "pool {}, class {}: {} slots are leased; {} count as leased and {} as kept, "
          "beside {} pinned and {} for calls of {}",
          Raw(pool), i, leased, kept.leased, kept.kept, pinned, for_calls, ledger->slot_count()));
    }
  }
}

std::set<ExpertKey> SimEngines::Leased(PoolId pool, SizeClass size_class) const {
  std::set<ExpertKey> leased = Leased(pool);
  std::erase_if(leased, [&](const ExpertKey& key) {
    return stage_.machine.sim_model.ClassOf(key) != size_class;
  });
  return leased;
}

std::set<ExpertKey> SimEngines::Leased(PoolId pool) const {
  std::set<ExpertKey> leased;
  for (const EnginePtr& engine : engines_) engine->AddLeased(pool, leased);
  return leased;
}

bool SimEngines::HasWaitingAcquire() const {
  return std::ranges::any_of(calls_, [](const CallPtr& call) {
    return call->answers == 0 && !call->waits_for_time && call->wait.count() > 0;
  });
}

bool SimEngines::AwaitDevice() const {
  return std::ranges::any_of(
      calls_, [](const CallPtr& call) { return call->answers == 0 && call->awaits_device; });
}

bool SimEngines::HasLeases() const {
  return std::ranges::any_of(engines_, [](const EnginePtr& engine) { return engine->HasLeases(); });
}

void SimEngines::CheckAtRest() const {
  for (const EnginePtr& engine : engines_) engine->CheckAtRest();
  for (const CallPtr& call : calls_) {
    if (call->answers == 0) stage_.auditor.Report(call->what + " is never answered");
  }
}

bool SimEngines::WaitForTime() {
  bool waits = false;
  for (const CallPtr& call : calls_) {
    if (call->answers > 0) continue;
    waits = true;
    if (!call->waits_for_time) {
      stage_.auditor.Report(call->what + " waits and nothing is under way");
    }
  }
  if (waits) stage_.machine.clock.Pass(std::chrono::microseconds(kMostWaitUs));
  return waits;
}

}  // namespace moetier
