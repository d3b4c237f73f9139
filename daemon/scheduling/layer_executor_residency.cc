// LayerExecutor between the ledgers and the loader: events in, commands obeyed.

#include <utility>

#include "base/check.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {

void LayerExecutor::Step(LoadedModel& model, SizeClass size_class, const LedgerEvent& event) {
  commands_.clear();
  model.ledgers[Raw(size_class)]->Step(event, commands_);
  for (const LedgerCommand& command : commands_) {
    if (const auto* start = std::get_if<StartRead>(&command)) {
      StartLoad(model, size_class, *start);
    } else if (const auto* promote = std::get_if<PromoteRead>(&command)) {
      loader_->Promote(promote->key, promote->ticket);
    } else if (const auto* cancel = std::get_if<CancelRead>(&command)) {
      loader_->Cancel(cancel->key, cancel->ticket);
    } else if (const auto* ready = std::get_if<KeyReady>(&command)) {
      OnKeyReady(*ready);
    } else if (const auto* evicted = std::get_if<KeyEvicted>(&command)) {
      desk_.NoteVictim(kRamPool, *evicted);
    } else if (const auto* retired = std::get_if<SlotRetired>(&command)) {
      model.retired.emplace_back(size_class, retired->slot);
    } else {
      OnKeyFailed(model, std::get<KeyFailed>(command));
    }
  }
}

void LayerExecutor::StartLoad(LoadedModel& model, SizeClass size_class, const StartRead& start) {
  if (TakeWriteBack(model, size_class, start)) return;
  ++model.reads_in_flight;
  loader_->Start({.key = start.key,
                  .ticket = start.ticket,
                  .urgency = start.urgency,
                  .verify = model.MustVerify(start.key) ? Verify::kYes : Verify::kNo,
                  .store = model.store.get(),
                  .files = model.files,
                  .slot = model.arena->Slot(size_class, start.ticket.slot)});
}

void LayerExecutor::OnLanded(LoadDone done) {
  LoadedModel& model = *models_.at(done.key.model);
  --model.reads_in_flight;
  NotePreheatRead(model, done.key);
  const LayerGeometry* layer = model.geometry->Find(done.key.layer);
  switch (done.outcome) {
    case LoadDone::Outcome::kLanded:
      model.NoteVerified(done.key);
      return Step(model, layer->size_class, ReadLanded{.ticket = done.ticket});
    case LoadDone::Outcome::kCancelled:
      return Step(model, layer->size_class,
                  ReadEnded{.ticket = done.ticket, .why = ReadEnded::Why::kCancelled});
    case LoadDone::Outcome::kFailed:
      log_.error("model {}: quarantined {}: {}", model.name, ToString(done.key),
                 done.error.message);
      model.quarantine.insert_or_assign(done.key, std::move(done.error));
      return Step(model, layer->size_class,
                  ReadEnded{.ticket = done.ticket, .why = ReadEnded::Why::kFailed});
  }
}

void LayerExecutor::OnKeyReady(const KeyReady& ready) {
  Wave& wave = waves_.at(ready.wave);
  if (wave.batch == kUnattendedBatch) return finished_unattended_.push_back(ready.wave);
  if (wave.batch == kTransferBatch) return desk_.OnReadWave(ready.wave, std::nullopt);
  if (wave.batch == 0) {
    wave.unfinished = 0;
    wave.pinned->set_value(Ok{});
    return;
  }
  const auto found = active_.find(wave.batch);
  if (found == active_.end()) return;  // abandoned
  ActiveBatch& active = found->second;
  const uint32_t ask = wave.first_ask + ready.index;
  const ReadyExpert expert{.index = active.asks[ask], .slot = ready.slot, .wave = ready.wave};
  if (ask < active.first_retry) active.batch.Count(expert.index, ready.resolution);
  if (ready.resolution != Resolution::kHit) active.last_landed = landed_at_;
  if (TakeForDevice(wave.batch, active, expert)) return;
  active.ready.push_back(expert);
}

void LayerExecutor::OnKeyFailed(LoadedModel& model, const KeyFailed& failed) {
  Wave& wave = waves_.at(failed.wave);
  if (wave.batch == kUnattendedBatch) return finished_unattended_.push_back(failed.wave);
  const ExpertKey& key = wave.keys[failed.index];
  const auto found = model.quarantine.find(key);
  MOE_CHECK(found != model.quarantine.end(), "{} failed without a reason", ToString(key));
  if (wave.batch == kTransferBatch) return desk_.OnReadWave(failed.wave, found->second);
  if (wave.batch == 0) {
    // The pin is dropped by the caller's thread of control: Pin reports, Unpin or unload releases.
    wave.unfinished = 0;
    wave.pinned->set_value(found->second);
    failed_pins_.push_back(key);
    return;
  }
  const auto batch = active_.find(wave.batch);
  if (batch == active_.end()) return;  // abandoned
  ActiveBatch& active = batch->second;
  active.batch.Fail(active.asks[wave.first_ask + failed.index], found->second);
  FinishExpert(active, failed.wave);
  changed_.push_back(wave.batch);
}

void LayerExecutor::ReleaseWaveOf(WaveId id) {
  const auto node = waves_.extract(id);
  const Wave& wave = node.mapped();
  if (wave.batch == 0) --wave.model->pinned[Raw(wave.size_class)];
  if (wave.batch == kUnattendedBatch) wave.model->filling.erase(wave.keys.front());
  Step(*wave.model, wave.size_class, ReleaseWave{.wave = id});
}

}  // namespace moetier
