// LayerExecutor and its Prefetcher: what is read ahead, and when.

#include <algorithm>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {

void LayerExecutor::Foresee(ActiveBatch& active) {
  for (const PendingCall& pending : active.batch.calls()) {
    prefetcher_.CallBegins(active.model, pending.call, no_longer_expected_, active.foreseen);
  }
}

void LayerExecutor::OnGuesses(const LayerGuesses& guesses) {
  if (guesses.experts.empty()) return;
  const auto model = models_.find(guesses.experts.front().model);
  if (model != models_.end() && !model->second->removed) prefetcher_.Take(*model->second, guesses);
}

// Reads ahead only what the drive has time for: none is started while a demand is under way.
void LayerExecutor::ReadAhead() {
  for (const ExpertKey& key : no_longer_expected_) StepKey(key, DropPrefetch{.key = key});
  no_longer_expected_.clear();
  while (const std::optional<ExpertKey> key = prefetcher_.TakeFound()) Expect(*key);
  while (prefetcher_.HasWanted() && !stopping_.load() && DriveHasTime()) {
    if (const std::optional<ExpertKey> key = prefetcher_.TakeWanted()) Expect(*key);
  }
}

// What is in VRAM is computed there: RAM need not have it too.
void LayerExecutor::Expect(const ExpertKey& key) {
  if (!IsInVram(key)) StepKey(key, Prefetch{.key = key, .room = PrefetchRoom::kEvict});
}

bool LayerExecutor::IsInVram(const ExpertKey& key) const {
  const auto found = models_.find(key.model);
  if (found == models_.end() || !found->second->vram) return false;
  const LayerGeometry* const layer = found->second->geometry->Find(key.layer);
  return found->second->vram->ledger(layer->size_class).StateOf(key) != SlotState::kAbsent;
}

void LayerExecutor::StepKey(const ExpertKey& key, const LedgerEvent& event) {
  const auto found = models_.find(key.model);
  if (found == models_.end() || found->second->removed) return;
  const LayerGeometry* const layer = found->second->geometry->Find(key.layer);
  Step(*found->second, layer->size_class, event);
}

// Reads of a preheat and copies back from VRAM are no demand of the drive.
bool LayerExecutor::DriveHasTime() const {
  size_t demands = 0;
  size_t guesses = 0;
  for (const auto& [id, model] : models_) {
    size_t loading = 0;
    size_t prefetching = 0;
    for (const auto& ledger : model->ledgers) {
      const LedgerCounts counts = ledger->counts();
      loading += counts.loading;
      prefetching += counts.prefetching;
      guesses += counts.prefetching - counts.preheating;
    }
    const size_t copies = model->vram ? model->vram->write_backs() : 0;
    demands += loading - std::min(loading, prefetching + copies);
  }
  return demands == 0 && guesses < prefetcher_.options().in_flight;
}

bool LayerExecutor::IsResident(const ExpertKey& key) const {
  if (IsInVram(key)) return true;
  const auto found = models_.find(key.model);
  if (found == models_.end()) return false;
  const LayerGeometry* const layer = found->second->geometry->Find(key.layer);
  return found->second->ledgers[Raw(layer->size_class)]->StateOf(key) == SlotState::kResident;
}

uint32_t LayerExecutor::Hint(SessionId session, const std::vector<ExpertKey>& experts) {
  uint32_t taken = 0;
  RunOnThread([&] {
    if (experts.empty() || stopping_.load()) return;
    const auto found = models_.find(experts.front().model);
    if (found == models_.end() || found->second->removed) return;
    taken = prefetcher_.Hint(*found->second, session, experts);
  });
  return taken;
}

}  // namespace moetier
