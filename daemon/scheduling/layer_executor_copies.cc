// LayerExecutor's copies between RAM and a device's memory: experts that enter VRAM, and those that
// leave it for them.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {

// Within a step of VRAM's ledger, outside of any of RAM's.
void LayerExecutor::BeginCopy(LoadedModel& model, SizeClass size_class, const StartRead& start) {
  const std::optional<SlotIndex> from = model.ledgers[Raw(size_class)]->SlotOf(start.key);
  MOE_CHECK(from, "{} is to be copied and is not in RAM", ToString(start.key));
  Step(model, size_class, HoldKey{.key = start.key});
  const DeviceAddress to = model.vram->Slot(size_class, start.ticket.slot);
  const std::optional<ExpertKey> victim =
      model.vram->CopyBegins(size_class, start.ticket.slot, start.key);
  // Copies run in their order: it is out before it is overwritten.
  if (victim) BeginWriteBack(model, size_class, {.key = *victim, .from = to});
  const CopyId id{next_copy_++};
  copies_.emplace(id, CopyUnderWay{.way = CopyWay::kIntoVram,
                                   .model = &model,
                                   .size_class = size_class,
                                   .key = start.key,
                                   .ticket = start.ticket});
  ++model.device_work;
  const uint64_t bytes = model.geometry->Find(start.key.layer)->record.bytes;
  device_->Copy(id, CopyIn{.from = model.arena->Slot(size_class, *from).first(bytes), .to = to});
}

// Whether a wave of the key alone would be granted at once: a victim does not wait.
bool LayerExecutor::HasRoomInRam(const ResidencyLedger& ram, const ExpertKey& key) {
  const LedgerCounts counts = ram.counts();
  // A slot that is being read ahead is no room until its read has ended.
  return counts.waiting_waves == 0 && !ram.IsQuarantined(key) &&
         counts.free + counts.resident + counts.loading > counts.reserved + counts.prefetching;
}

// Few stand before a copy that somebody wants. Where slots retire nobody waits for theirs, and the
// drive is slower than the link: these may fill a part of their class of RAM.
bool LayerExecutor::MayWriteBack(const LoadedModel& model, SizeClass size_class,
                                 const WriteBack& victim) {
  const ResidencyLedger& ram = *model.ledgers[Raw(size_class)];
  const VramPool& vram = *model.vram;
  const bool few = vram.write_backs() < VramPool::kMaxWriteBacks ||
                   (victim.retiring && vram.write_backs(size_class) < ram.slot_count() / 4);
  return few && HasRoomInRam(ram, victim.key);
}

// False when no copy begins: RAM has the expert or reads it already, or it is dropped.
bool LayerExecutor::BeginWriteBack(LoadedModel& model, SizeClass size_class,
                                   const WriteBack& victim) {
  if (model.ledgers[Raw(size_class)]->StateOf(victim.key) != SlotState::kAbsent) return false;
  if (!HasDevice() || !MayWriteBack(model, size_class, victim)) {
    model.vram->NoteVictim(size_class, VramPool::Victim::kDropped);
    return false;
  }
  const WaveId id{next_wave_++};
  Wave& wave = waves_[id];
  wave.model = &model;
  wave.size_class = size_class;
  wave.batch = kUnattendedBatch;
  wave.keys = {victim.key};
  write_back_ = victim;
  Step(model, size_class, ReserveWave{.wave = id, .keys = wave.keys, .tenure = Tenure::kHeld});
  MOE_CHECK(!write_back_, "{} got no slot in RAM", ToString(victim.key));
  return true;
}

// Within a step of VRAM's ledger: the slot retires. Its memory is given back when its expert, if it
// goes to RAM, has been copied out.
void LayerExecutor::EmptySlot(LoadedModel& model, SizeClass size_class, SlotIndex slot) {
  const std::optional<ExpertKey> expert = model.vram->SlotRetires(size_class, slot);
  const DeviceAddress from = model.vram->Slot(size_class, slot);
  if (expert &&
      BeginWriteBack(model, size_class, {.key = *expert, .from = from, .retiring = slot})) {
    return;
  }
  model.vram->SlotVacated(size_class, slot);
}

// Within a step of RAM's ledger: whether the bytes come from VRAM, not from the drive.
bool LayerExecutor::TakeWriteBack(LoadedModel& model, SizeClass size_class,
                                  const StartRead& start) {
  if (!write_back_ || write_back_->key != start.key) return false;
  const WriteBack victim = *std::exchange(write_back_, std::nullopt);
  const CopyId id{next_copy_++};
  copies_.emplace(id, CopyUnderWay{.way = CopyWay::kBackToRam,
                                   .model = &model,
                                   .size_class = size_class,
                                   .key = start.key,
                                   .ticket = start.ticket,
                                   .retiring = victim.retiring});
  ++model.device_work;
  model.vram->NoteVictim(size_class, VramPool::Victim::kWrittenBack);
  const uint64_t bytes = model.geometry->Find(start.key.layer)->record.bytes;
  device_->Copy(id, CopyOut{.from = victim.from,
                            .to = model.arena->Slot(size_class, start.ticket.slot).first(bytes)});
  return true;
}

void LayerExecutor::OnCopyDone(const CopyDone& done) {
  const auto node = copies_.extract(done.id);
  MOE_CHECK(!node.empty(), "copy {} ended and is not under way", Raw(done.id));
  const CopyUnderWay& copy = node.mapped();
  --copy.model->device_work;
  if (copy.way == CopyWay::kIntoVram) {
    // What landed just before the loss is gone with it.
    const bool gone = device_lost_ && done.outcome == DeviceOutcome::kDone;
    OnCopiedIn(copy, gone ? DeviceOutcome::kFailed : done.outcome);
  } else {
    OnWrittenBack(copy, done.outcome);
  }
}

void LayerExecutor::OnCopiedIn(const CopyUnderWay& copy, DeviceOutcome outcome) {
  LoadedModel& model = *copy.model;
  switch (outcome) {
    case DeviceOutcome::kDone:
      StepVram(model, copy.size_class, ReadLanded{.ticket = copy.ticket});
      break;
    case DeviceOutcome::kCancelled:
      StepVram(model, copy.size_class,
               ReadEnded{.ticket = copy.ticket, .why = ReadEnded::Why::kCancelled});
      break;
    case DeviceOutcome::kFailed:
      StepVram(model, copy.size_class,
               ReadEnded{.ticket = copy.ticket, .why = ReadEnded::Why::kFailed});
      // The bytes in RAM are good, and the next copy may be too.
      StepVram(model, copy.size_class, moetier::LiftQuarantine{.key = copy.key});
      break;
  }
  model.vram->CopyEnded(copy.size_class, copy.ticket.slot, copy.key, outcome);
  if (model.vram->IsResident(copy.size_class, copy.key)) {
    Step(model, copy.size_class, DropKey{.key = copy.key});
  }
  Step(model, copy.size_class, UnholdKey{.key = copy.key});
}

// A copy that did not come is, to RAM's ledger, a read that begins anew: from the drive.
void LayerExecutor::OnWrittenBack(const CopyUnderWay& copy, DeviceOutcome outcome) {
  copy.model->vram->WriteBackEnded(copy.size_class);
  if (copy.retiring) copy.model->vram->SlotVacated(copy.size_class, *copy.retiring);
  if (outcome == DeviceOutcome::kDone) {
    return Step(*copy.model, copy.size_class, ReadLanded{.ticket = copy.ticket});
  }
  Step(*copy.model, copy.size_class,
       ReadEnded{.ticket = copy.ticket, .why = ReadEnded::Why::kCancelled});
}

}  // namespace moetier
