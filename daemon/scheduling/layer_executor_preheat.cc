// LayerExecutor's preheating: the hottest experts are read into free slots while calls are served.

#include <chrono>
#include <string_view>
#include <utility>

#include "base/text_size.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

// Enough to keep a drive busy at record sizes; the reader serves calls' reads before these.
constexpr size_t kPreheatReads = 16;

// The heat policy orders what is admitted hot by the very heat that it is read in the order of.
// Under the others what is read first must be missed last: each next one enters colder.
Admission AdmissionUnder(std::string_view policy) {
  return policy.starts_with("heat") ? Admission::kHot : Admission::kCold;
}

}  // namespace

void LayerExecutor::StartPreheat(ModelId id, std::vector<ExpertKey> hottest_first) {
  WithModel(id, [&](LoadedModel& model) {
    Preheat& preheat = model.preheat;
    std::vector<uint32_t> room;
    for (const auto& ledger : model.ledgers) room.push_back(ledger->counts().free);
    preheat.keys.clear();
    preheat.next = 0;
    preheat.progress = {};
    preheat.begun = clock_.Now();
    for (const ExpertKey& key : hottest_first) {
      const LayerGeometry* layer = model.geometry->Find(key.layer);
      const size_t size_class = Raw(layer->size_class);
      if (room[size_class] == 0) continue;
      if (model.ledgers[size_class]->StateOf(key) != SlotState::kAbsent || IsInVram(key)) continue;
      --room[size_class];
      preheat.keys.push_back(key);
      ++preheat.progress.records_total;
      preheat.progress.bytes_total += Bytes(layer->record.bytes);
    }
    preheat.progress.under_way = !preheat.keys.empty() || !preheat.reading.empty();
  });
}

PreheatProgress LayerExecutor::PreheatOf(ModelId id) {
  PreheatProgress progress;
  WithModel(id, [&](LoadedModel& model) { progress = model.preheat.progress; });
  return progress;
}

void LayerExecutor::ContinuePreheats() {
  if (stopping_.load()) return;
  for (const auto& [id, model] : models_) {
    if (model->preheat.progress.under_way && !model->removed) ContinuePreheat(*model);
  }
}

void LayerExecutor::ContinuePreheat(LoadedModel& model) {
  Preheat& preheat = model.preheat;
  while (preheat.next < preheat.keys.size() && preheat.reading.size() < kPreheatReads) {
    const ExpertKey key = preheat.keys[preheat.next];
    const SizeClass size_class = model.geometry->Find(key.layer)->size_class;
    ResidencyLedger& ledger = *model.ledgers[Raw(size_class)];
    if (ledger.counts().waiting_waves > 0) return;  // calls have the room that there is
    ++preheat.next;
    const bool wanted =
        ledger.StateOf(key) == SlotState::kAbsent && !ledger.IsQuarantined(key) && !IsInVram(key);
    if (wanted) {
      Step(model, size_class,
           Prefetch{.key = key,
                    .room = PrefetchRoom::kFreeSlots,
                    .admission = AdmissionUnder(ledger.policy_name())});
    }
    if (wanted && ledger.StateOf(key) == SlotState::kLoading) {
      preheat.reading.insert(key);
    } else {
      CountPreheated(model, key);
    }
  }
  if (preheat.next < preheat.keys.size() || !preheat.reading.empty()) return;
  preheat.progress.under_way = false;
  if (preheat.progress.records_total == 0) return;
  const std::chrono::duration<double> took = clock_.Now() - preheat.begun;
  log_.info("model {}: preheated with {} experts, {} in {:.1f} s", model.name,
            preheat.progress.records_total, FormatSize(preheat.progress.bytes_total), took.count());
}

void LayerExecutor::NotePreheatRead(LoadedModel& model, const ExpertKey& key) {
  if (model.preheat.reading.erase(key) > 0) CountPreheated(model, key);
}

void LayerExecutor::CountPreheated(LoadedModel& model, const ExpertKey& key) {
  PreheatProgress& progress = model.preheat.progress;
  // Reads of a preheat that another has replaced are none of this one's.
  if (progress.records_done == progress.records_total) return;
  ++progress.records_done;
  progress.bytes_done += Bytes(model.geometry->Find(key.layer)->record.bytes);
}

void LayerExecutor::NoteHeat(const ActiveBatch& active) {
  for (const LayerBatch::PickedExpert& expert : active.batch.experts()) {
    active.model.heat->Add(expert.key.layer, expert.key.expert, expert.heat);
  }
}

}  // namespace moetier
