// ResidencyDesk's transfers: bytes that sessions want in RAM or on a device.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"
#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/residency_desk.h"

namespace moetier {
namespace {

Error NoRoom(const LoadedModel& model, const Place& place, SizeClass size_class) {
  const bool in_ram = place.pool == kRamPool;
  const ResidencyLedger& ledger =
      in_ram ? *model.ledgers[Raw(size_class)] : model.vram->ledger(size_class);
  const KeptSlots& kept = model.KeptIn(place.pool)[Raw(size_class)];
  std::string why = fmt::format("{} of {} slots of the size class are leased or awaited", kept.kept,
                                ledger.slot_count());
  if (in_ram) {
    why += fmt::format(", {} pinned and {} kept for calls", model.pinned[Raw(size_class)],
                       model.SlotsForCalls());
  }
  return {ErrorCode::kExhausted, Reason::kNoRoom,
          fmt::format("no room for {} in pool {}: {}; release some", ToString(place.key),
                      Raw(place.pool), why)};
}

}  // namespace

void ResidencyDesk::Transfer(const ResidencyCalls::TransferRequest& request,
                             const Done<std::vector<TransferOutcome>>& done) {
  const Result<Open> open = Find(request.session);
  if (!open) return done(open.error());
  // None of the call's keys makes room for another: each is where its outcome says.
  const std::vector<Place> held = HoldResident(open->model, request);
  std::vector<TransferOutcome> outcomes;
  for (const ExpertKey& key : request.keys) {
    outcomes.push_back(TransferOne(*open, {key, request.to}));
  }
  done(std::move(outcomes));
  for (const Place& place : held) {
    Step(open->model, place, UnholdKey{.key = place.key, .tenure = Tenure::kHeld});
  }
}

// Where the call's keys are already, on their way through RAM too.
std::vector<Place> ResidencyDesk::HoldResident(LoadedModel& model,
                                               const ResidencyCalls::TransferRequest& request) {
  std::vector<Place> held;
  const auto hold = [&](const Place& place) {
    if (StateOf(model, place) != SlotState::kResident) return;
    Step(model, place, HoldKey{.key = place.key, .tenure = Tenure::kHeld});
    held.push_back(place);
  };
  for (const ExpertKey& key : request.keys) {
    hold({key, kRamPool});
    if (request.to != kRamPool) hold({key, request.to});
  }
  return held;
}

TransferOutcome ResidencyDesk::TransferOne(const Open& open, const Place& place) {
  LoadedModel& model = open.model;
  if (place.pool != kRamPool) {
    if (Status status = CheckDevice(model); !status) return std::move(status).error();
  }
  if (StateOf(model, place) == SlotState::kResident) {
    const ResidencyLedger& ledger = *LedgerOf(model, place);
    return InPlace{.generation = ledger.View(*ledger.SlotOf(place.key)).generation};
  }
  if (const auto joined = book_.TransferTo(place, open.session.id)) return *joined;
  if (Status status = CheckTransfer(open, place); !status) return std::move(status).error();
  const TransferId number = book_.Join(open.session.id, place, ChargeOf(model, place.key));
  Ensure(model, place);
  return number;
}

// What is loading has a transfer of the session's, if it may have one more.
std::optional<TransferId> ResidencyDesk::JoinIfRoom(const Open& open, const Place& place) {
  const SessionId session = open.session.id;
  if (!book_.TransferTo(place, session) && book_.TransferRoom(session) == 0) return std::nullopt;
  const TransferId number = book_.Join(session, place, ChargeOf(open.model, place.key));
  Ensure(open.model, place);
  return number;
}

Status ResidencyDesk::CheckDevice(const LoadedModel& model) const {
  if (executor_.device_lost_) return *executor_.device_lost_;
  if (model.vram != nullptr) return Ok{};
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               fmt::format("model `{}` has no slots on a device", model.name)};
}

// Whether a transfer to the place, where the key is not, may begin.
Status ResidencyDesk::CheckTransfer(const Open& open, const Place& place) const {
  const LoadedModel& model = open.model;
  const SizeClass size_class = ClassOf(model, place.key);
  const Place in_ram{place.key, kRamPool};
  const auto quarantined = model.quarantine.find(place.key);
  if (quarantined != model.quarantine.end() && StateOf(model, in_ram) == SlotState::kAbsent) {
    return Error{
        quarantined->second.code, Reason::kQuarantined,
        fmt::format("{} is quarantined: {}", ToString(place.key), quarantined->second.message)};
  }
  RETURN_IF_ERROR(book_.CheckQuota(open.session.id, ChargeOf(model, place.key)));
  RETURN_IF_ERROR(book_.CheckTransfers(open.session.id));
  if (!HasRoom(model, place, Keeper::kTransfer, {})) return NoRoom(model, place, size_class);
  const bool through_ram = place.pool != kRamPool && StateOf(model, place) == SlotState::kAbsent;
  if (through_ram && !HasRoom(model, in_ram, Keeper::kTransfer, {})) {
    return NoRoom(model, in_ram, size_class);
  }
  return Ok{};
}

// There is a transfer to the place, where the key is absent or loading.
void ResidencyDesk::Ensure(LoadedModel& model, const Place& place) {
  const auto [it, inserted] = transfers_.try_emplace(place, UnderWay{.model = model});
  if (!inserted) return;
  Keep(model, place, Keeper::kTransfer);
  // What is being copied is in RAM, and is joined at once so that nothing comes between.
  if (place.pool != kRamPool && StateOf(model, place) != SlotState::kAbsent) {
    return CopyToVram(it->second, place);
  }
  ReadToRam(it->second, place);
}

void ResidencyDesk::ReadToRam(UnderWay& transfer, const Place& place) {
  LoadedModel& model = transfer.model;
  const SizeClass size_class = ClassOf(model, place.key);
  if (place.pool != kRamPool) Keep(model, {place.key, kRamPool}, Keeper::kTransfer);
  const WaveId id{executor_.next_wave_++};
  transfer.in_ram = id;
  waves_.emplace(id, place);
  LayerExecutor::Wave& wave = executor_.waves_[id];
  wave.model = &model;
  wave.size_class = size_class;
  wave.batch = LayerExecutor::kTransferBatch;
  wave.keys = {place.key};
  executor_.Step(model, size_class,
                 ReserveWave{.wave = id, .keys = wave.keys, .tenure = Tenure::kHeld});
}

void ResidencyDesk::CopyToVram(UnderWay& transfer, const Place& place) {
  LoadedModel& model = transfer.model;
  const SizeClass size_class = ClassOf(model, place.key);
  const WaveId id{executor_.next_wave_++};
  transfer.in_vram = id;
  waves_.emplace(id, place);
  executor_.vram_waves_.emplace(id, LayerExecutor::VramWave{.model = &model,
                                                            .size_class = size_class,
                                                            .batch = LayerExecutor::kTransferBatch,
                                                            .unfinished = 1});
  executor_.StepVram(
      model, size_class,
      ReserveWave{.wave = id, .keys = std::span(&place.key, 1), .tenure = Tenure::kHeld});
}

void ResidencyDesk::OnRead(const ReadWave& read) {
  const auto found = waves_.find(read.wave);
  if (found == waves_.end()) return;  // given up meanwhile
  const Place place = found->second;
  if (read.failed) return FinishFailed(place, *read.failed, NotLeasedWhy::kQuarantined);
  if (place.pool == kRamPool) return FinishWell(place);
  UnderWay& transfer = transfers_.at(place);
  // What is being copied already, or is there, needs no place among the copies.
  if (StateOf(transfer.model, place) != SlotState::kAbsent) return CopyToVram(transfer, place);
  WaitToCopy(transfer, place);
}

void ResidencyDesk::WaitToCopy(UnderWay& transfer, const Place& place) {
  transfer.turn = next_turn_++;
  to_copy_[{place.key.model, ClassOf(transfer.model, place.key)}].emplace(*transfer.turn, place);
}

void ResidencyDesk::StopWaitingToCopy(UnderWay& transfer, const Place& place) {
  if (!transfer.turn) return;
  const auto queue = to_copy_.find({place.key.model, ClassOf(transfer.model, place.key)});
  queue->second.erase(*std::exchange(transfer.turn, std::nullopt));
  if (queue->second.empty()) to_copy_.erase(queue);
}

// In the order in which they came to RAM, as far as the device takes copies: where the first of a
// size class may not enter, no other may. It will, since its slot is kept from leases.
void ResidencyDesk::CopyWaiting() {
  std::vector<std::pair<ModelId, SizeClass>> queues;
  for (const auto& [of, queue] : to_copy_) queues.push_back(of);
  for (const auto& of : queues) {
    for (auto queue = to_copy_.find(of); queue != to_copy_.end(); queue = to_copy_.find(of)) {
      const Place place = queue->second.begin()->second;
      const LoadedModel& model = transfers_.at(place).model;
      const bool joins = StateOf(model, place) != SlotState::kAbsent;
      if (!joins && !model.vram->MayEnter(of.second, place.key)) break;
      CopyNow(place);
    }
  }
}

void ResidencyDesk::CopyNow(const Place& place) {
  UnderWay& transfer = transfers_.at(place);
  StopWaitingToCopy(transfer, place);
  CopyToVram(transfer, place);
}

void ResidencyDesk::OnCopied(WaveId wave, Copied copied) {
  const auto found = waves_.find(wave);
  if (found == waves_.end()) return;  // given up meanwhile
  const Place place = found->second;
  if (copied == Copied::kWell) return FinishWell(place);
  const Error error{ErrorCode::kUnavailable, Reason::kUnspecified,
                    fmt::format("{} was not copied to pool {}: the copy failed; try again",
                                ToString(place.key), Raw(place.pool))};
  FinishFailed(place, error, NotLeasedWhy::kAbsent);
}

// The place's wave holds the slot until whoever waited has leased it.
void ResidencyDesk::FinishWell(const Place& place) {
  LoadedModel& model = transfers_.at(place).model;
  book_.Land(place, [&] { return Hold(model, place); });
  GiveUp(place);
}

void ResidencyDesk::FinishFailed(const Place& place, const Error& error, NotLeasedWhy why) {
  book_.Fail(place, error, why);
  GiveUp(place);
}

// Gives back what the transfer holds, and cancels what is under way for it alone.
void ResidencyDesk::GiveUp(const Place& place) {
  auto node = transfers_.extract(place);
  UnderWay& transfer = node.mapped();
  LoadedModel& model = transfer.model;
  Unkeep(model, place, Keeper::kTransfer);
  StopWaitingToCopy(transfer, place);
  if (transfer.in_vram) {
    waves_.erase(*transfer.in_vram);
    executor_.ReleaseVramWave(*transfer.in_vram);
  }
  if (transfer.in_ram) {
    waves_.erase(*transfer.in_ram);
    if (place.pool != kRamPool) Unkeep(model, {place.key, kRamPool}, Keeper::kTransfer);
    executor_.ReleaseWaveOf(*transfer.in_ram);
  }
}

void ResidencyDesk::GiveUpUnwanted() {
  for (const Place& place : book_.TakeUnwanted()) {
    if (transfers_.contains(place) && !book_.IsWanted(place)) GiveUp(place);
  }
}

void ResidencyDesk::Landed(const ResidencyCalls::LandedRequest& request,
                           const Done<LandedTransfers>& done) {
  const Result<Open> open = Find(request.session);
  if (!open) return done(open.error());
  if (request.wait.count() == 0) return book_.Landed(request, std::nullopt, done);
  if (const Status allowed = CheckWaiting(request.session); !allowed) return done(allowed.error());
  book_.Landed(request, executor_.clock_.Now() + request.wait, done);
}

}  // namespace moetier
