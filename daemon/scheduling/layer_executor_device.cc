// LayerExecutor and its device: lanes that run beside the CPU's, copies into VRAM, and what is done
// instead when the device fails.
//
// A batch's experts reach a device lane in two ways. Those that are in VRAM are reserved there when
// the piece is planned. The others are had in RAM first, by waves, and then read there by the
// device (zero-copy) or pushed to VRAM and computed. Whatever a device does not compute after all,
// the CPU does from RAM. Ledgers of VRAM are stepped outside the steps of RAM's alone: what follows
// for the device from a RAM ledger's commands is only noted, and done by SubmitToDevice.

#include <utility>

#include "base/check.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {

void LayerExecutor::OnCopy(const CopyDone& done) { mailbox_.Send(done); }

void LayerExecutor::OnRun(const RunDone& done) { mailbox_.Send(Ran{done, clock_.Now()}); }

void LayerExecutor::OnDeviceLost(const Error& why) {
  mailbox_.Send(Control{[this, why] { OnLost(why); }});
}

// Ledgers of VRAM
// ------------------------------------------------------------------------------------------------

void LayerExecutor::StepVram(LoadedModel& model, SizeClass size_class, const LedgerEvent& event) {
  vram_commands_.clear();
  model.vram->ledger(size_class).Step(event, vram_commands_);
  for (const LedgerCommand& command : vram_commands_) {
    if (const auto* start = std::get_if<StartRead>(&command)) {
      BeginCopy(model, size_class, *start);
    } else if (const auto* cancel = std::get_if<CancelRead>(&command)) {
      for (const auto& [id, copy] : copies_) {
        if (copy.model == &model && copy.size_class == size_class &&
            copy.ticket == cancel->ticket) {
          device_->CancelCopy(id);
        }
      }
    } else if (const auto* ready = std::get_if<KeyReady>(&command)) {
      OnVramReady(*ready);
    } else if (const auto* evicted = std::get_if<KeyEvicted>(&command)) {
      desk_.NoteVictim(kDevicePool, *evicted);
      // RAM may be about to give it up for VRAM's sake.
      Step(model, size_class, KeepKey{.key = evicted->key});
    } else if (const auto* retired = std::get_if<SlotRetired>(&command)) {
      EmptySlot(model, size_class, retired->slot);
    } else {
      OnVramFailed(std::get<KeyFailed>(command));
    }
  }
  // Only now: a step inside the loop would change the list it goes through.
  while (!finished_vram_waves_.empty()) {
    const WaveId wave = finished_vram_waves_.back();
    finished_vram_waves_.pop_back();
    ReleaseVramWave(wave);
  }
}

void LayerExecutor::FinishVramKey(WaveId id) {
  if (--vram_waves_.at(id).unfinished == 0) finished_vram_waves_.push_back(id);
}

void LayerExecutor::ReleaseVramWave(WaveId id) {
  const auto node = vram_waves_.extract(id);
  const VramWave& wave = node.mapped();
  StepVram(*wave.model, wave.size_class, ReleaseWave{.wave = id});
}

void LayerExecutor::ReleaseVramWavesOf(uint64_t batch) {
  std::vector<WaveId> held;
  for (const auto& [id, wave] : vram_waves_) {
    if (wave.batch == batch) held.push_back(id);
  }
  for (const WaveId id : held) ReleaseVramWave(id);
}

void LayerExecutor::OnVramReady(const KeyReady& ready) {
  const VramWave& wave = vram_waves_.at(ready.wave);
  if (wave.batch == 0) return FinishVramKey(ready.wave);
  if (wave.batch == kTransferBatch) {
    return desk_.OnCopyWave(ready.wave, ResidencyDesk::Copied::kWell);
  }
  const auto found = active_.find(wave.batch);
  if (found == active_.end()) return;  // abandoned
  ActiveBatch& active = found->second;
  const uint32_t index = wave.experts[ready.index];
  DevicePick pick{.index = index,
                  .record = wave.model->vram->Slot(wave.size_class, ready.slot),
                  .in_vram = ready.wave};
  if (auto pushed = active.device.pushed.extract(index); !pushed.empty()) {
    pick.in_ram = pushed.mapped();
  } else {
    active.batch.Count(index, ready.resolution);
  }
  active.device.to_gpu.push_back(std::move(pick));
  device_changed_.push_back(wave.batch);
}

void LayerExecutor::OnVramFailed(const KeyFailed& failed) {
  const VramWave& wave = vram_waves_.at(failed.wave);
  if (wave.batch == kTransferBatch) {
    return desk_.OnCopyWave(failed.wave, ResidencyDesk::Copied::kFailed);
  }
  if (const auto found = active_.find(wave.batch); found != active_.end()) {
    ActiveBatch& active = found->second;
    const auto pushed = active.device.pushed.extract(wave.experts[failed.index]);
    MOE_CHECK(!pushed.empty(), "an expert that was not pushed failed in VRAM");
    active.ready.push_back(pushed.mapped());
  }
  FinishVramKey(failed.wave);
}

// Lanes
// ------------------------------------------------------------------------------------------------

// Within a step of RAM's ledger. False when the CPU is to compute it.
bool LayerExecutor::TakeForDevice(uint64_t id, ActiveBatch& active, const ReadyExpert& ready) {
  if (!HasDevice() || active.device.lanes.empty()) return false;
  switch (active.device.lanes[ready.index]) {
    case PickLane::kZeroCopy: {
      const SizeClass size_class = active.batch.geometry().size_class;
      const std::byte* const record = active.model.arena->Slot(size_class, ready.slot).data();
      active.device.to_zero_copy.push_back(
          {.index = ready.index, .record = record, .in_vram = {}, .in_ram = ready});
      break;
    }
    case PickLane::kPush:
      active.device.to_push.push_back(ready);
      break;
    default:
      return false;
  }
  device_changed_.push_back(id);
  return true;
}

void LayerExecutor::SubmitToDevice() {
  while (!device_changed_.empty()) {
    const uint64_t id = device_changed_.back();
    device_changed_.pop_back();
    const auto found = active_.find(id);
    if (found == active_.end()) continue;
    ActiveBatch& active = found->second;
    for (const ReadyExpert& ready : std::exchange(active.device.to_push, {})) {
      Push(id, active, ready);
    }
    SubmitRun(id, active, LaneKind::kGpu, std::exchange(active.device.to_gpu, {}));
    SubmitRun(id, active, LaneKind::kZeroCopy, std::exchange(active.device.to_zero_copy, {}));
  }
}

// Copies an expert to VRAM to compute it there, or joins the copy under way. Where that cannot be,
// the CPU computes it.
void LayerExecutor::Push(uint64_t id, ActiveBatch& active, const ReadyExpert& ready) {
  LoadedModel& model = active.model;
  const SizeClass size_class = active.batch.geometry().size_class;
  const LayerBatch::PickedExpert& expert = active.batch.experts()[ready.index];
  const bool may = HasDevice() && model.vram &&
                   (model.vram->ledger(size_class).StateOf(expert.key) != SlotState::kAbsent ||
                    model.vram->MayEnter(size_class, expert.key));
  if (!may) return active.ready.push_back(ready);
  active.device.pushed.emplace(ready.index, ready);
  const WaveId wave{next_wave_++};
  vram_waves_.emplace(wave, VramWave{.model = &model,
                                     .size_class = size_class,
                                     .batch = id,
                                     .experts = {ready.index},
                                     .unfinished = 1});
  StepVram(model, size_class,
           ReserveWave{.wave = wave,
                       .keys = std::span(&expert.key, 1),
                       .admission = expert.admission,
                       .tenure = Tenure::kCall,
                       .heat = std::span(&expert.heat, 1)});
}

void LayerExecutor::SubmitRun(uint64_t id, ActiveBatch& active, LaneKind lane,
                              std::vector<DevicePick> picks) {
  if (picks.empty()) return;
  if (!HasDevice()) {
    for (const DevicePick& pick : picks) FallBack(id, active, pick);
    return;
  }
  std::vector<DeviceTask> tasks;
  for (const DevicePick& pick : picks) {
    const LaneTask task = active.batch.Task(pick.index, nullptr);
    tasks.push_back({.shape = task.expert.shape,
                     .layout = task.expert.layout,
                     .record = pick.record,
                     .tokens = task.tokens,
                     .y = task.y});
  }
  const RunId run{next_run_++};
  ++active.device.runs;
  ++active.model.device_work;
  runs_.emplace(run, RunUnderWay{.batch = id, .lane = lane, .picks = std::move(picks)});
  device_->Run(run, std::move(tasks));
}

void LayerExecutor::OnRunDone(const Ran& ran) {
  const RunDone& done = ran.done;
  const auto node = runs_.extract(done.id);
  MOE_CHECK(!node.empty(), "run {} ended and is not under way", Raw(done.id));
  const RunUnderWay& run = node.mapped();
  const auto found = active_.find(run.batch);
  if (found == active_.end()) return EndAbandoned(run.batch);
  ActiveBatch& active = found->second;
  --active.device.runs;
  --active.model.device_work;
  if (done.outcome == DeviceOutcome::kDone) {
    CountRun(run, active, done.busy);
    ChargeSessions(active, done.busy);
    for (const DevicePick& pick : run.picks) FinishPick(active, pick);
    if (ran.at > lane_free_since_) active.ended_by = EndedBy::kDevice;
  } else {
    for (const DevicePick& pick : run.picks) FallBack(run.batch, active, pick);
  }
  changed_.push_back(run.batch);
}

void LayerExecutor::EndAbandoned(uint64_t batch) {
  ActiveBatch& active = abandoned_.at(batch);
  --active.model.device_work;
  if (--active.device.runs > 0) return;
  ReleaseWavesOf(batch);
  abandoned_.erase(batch);
}

void LayerExecutor::CountRun(const RunUnderWay& run, ActiveBatch& active,
                             std::chrono::nanoseconds busy) {
  const LayerGeometry& layer = active.batch.geometry();
  LaneCounters& counters = lane_counters_[Raw(run.lane)];
  parts_.clear();
  for (const DevicePick& pick : run.picks) {
    const uint32_t rows = active.batch.experts()[pick.index].use_count;
    counters.rows += rows;
    parts_.push_back({.kind = ModelPlanning::KindOf(layer.size_class), .rows = rows});
    active.batch.CountLane(pick.index, Raw(run.lane));
  }
  counters.experts += run.picks.size();
  counters.bytes += run.picks.size() * layer.record.bytes;
  counters.busy += busy;
  active.device.busy[Raw(run.lane)] += busy;
  active.model.planning->ObserveDevice(run.lane, parts_, busy);
}

void LayerExecutor::FinishPick(ActiveBatch& active, const DevicePick& pick) {
  if (pick.in_ram && !pick.in_vram) LetIn(active, pick.index);
  if (pick.in_vram) EndInVram(*pick.in_vram);
  if (pick.in_ram) {
    FinishExpert(active, pick.in_ram->wave);
  } else {
    --active.unfinished;
  }
}

// The device did not compute it: the CPU does, once it is in RAM.
void LayerExecutor::FallBack(uint64_t id, ActiveBatch& active, const DevicePick& pick) {
  active.device.lanes[pick.index] = PickLane::kCpu;
  if (pick.in_vram) EndInVram(*pick.in_vram);
  if (pick.in_ram) {
    active.ready.push_back(*pick.in_ram);
  } else {
    active.asks.push_back(pick.index);
    changed_.push_back(id);
  }
}

void LayerExecutor::EndInVram(WaveId id) {
  if (--vram_waves_.at(id).unfinished == 0) ReleaseVramWave(id);
}

void LayerExecutor::AfterCpuRun(ActiveBatch& active, size_t count, std::chrono::nanoseconds busy) {
  const ExpertKind kind = ModelPlanning::KindOf(active.batch.geometry().size_class);
  parts_.clear();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t index = active.ready[i].index;
    parts_.push_back({.kind = kind, .rows = active.batch.experts()[index].use_count});
    active.batch.CountLane(index, Raw(LaneKind::kCpu));
    LetIn(active, index);
  }
  active.model.planning->Observe(LaneKind::kCpu, parts_, busy);
}

// An expert that was computed from RAM, where the batch still holds it, is copied to VRAM if the
// pool wants it and a place can be had at once. Large requests bring nothing in.
void LayerExecutor::LetIn(const ActiveBatch& active, uint32_t index) {
  LoadedModel& model = active.model;
  if (!HasDevice() || !model.vram) return;
  const SizeClass size_class = active.batch.geometry().size_class;
  const LayerBatch::PickedExpert& expert = active.batch.experts()[index];
  if (expert.admission == Admission::kCold) return;
  if (model.vram->ledger(size_class).StateOf(expert.key) != SlotState::kAbsent) return;
  if (!model.vram->WantsIn(expert.key) || !model.vram->MayEnter(size_class, expert.key)) return;
  const WaveId wave{next_wave_++};
  vram_waves_.emplace(wave, VramWave{.model = &model,
                                     .size_class = size_class,
                                     .batch = 0,
                                     .experts = {index},
                                     .unfinished = 1});
  StepVram(model, size_class,
           ReserveWave{.wave = wave,
                       .keys = std::span(&expert.key, 1),
                       .admission = Admission::kHot,
                       .tenure = Tenure::kCall,
                       .heat = std::span(&expert.heat, 1)});
}

// Loss
// ------------------------------------------------------------------------------------------------

// Its memory is gone: nothing is resident there, and nothing is leased. What it was computing comes
// back failed.
void LayerExecutor::OnLost(const Error& why) {
  device_lost_ = Error{ErrorCode::kUnavailable, Reason::kDeviceLost, why.message};
  log_.error("{}; its experts are read from the drive again and computed on the CPU", why.message);
  for (const auto& [id, model] : models_) {
    if (!model->vram) continue;
    for (size_t i = 0; i < model->vram->class_count(); ++i) {
      const SizeClass size_class{static_cast<uint8_t>(i)};
      const ResidencyLedger& ledger = model->vram->ledger(size_class);
      for (uint32_t slot = 0; slot < ledger.place_count(); ++slot) {
        const ResidencyLedger::SlotView view = ledger.View(SlotIndex{slot});
        if (view.state != SlotState::kResident) continue;
        StepVram(*model, size_class, DropKey{.key = view.key});
      }
    }
  }
  const ResidencyBook::Leased ended = desk_.EndOnDevice(*device_lost_);
  if (ended.leases > 0) {
    log_.error("{} leases of {} sessions on its slots have ended with it", ended.leases,
               ended.sessions);
  }
}

}  // namespace moetier
