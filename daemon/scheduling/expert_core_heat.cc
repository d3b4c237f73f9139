// ExpertCore's heat: what is kept of it, served of it, and preheated from it.

#include <thread>
#include <utility>

#include "daemon/scheduling/expert_core.h"

namespace moetier {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};  // at a preheat under way

ModelProgress ProgressOf(const PreheatProgress& preheat) {
  ModelProgress progress;
  progress.stage = "preheat";
  progress.bytes_done = preheat.bytes_done;
  progress.bytes_total = preheat.bytes_total;
  progress.records_done = preheat.records_done;
  progress.records_total = preheat.records_total;
  return progress;
}

Error GoneModel() {
  return {ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded any more"};
}

}  // namespace

std::vector<ModelHeat> ExpertCore::CollectHeat() {
  std::vector<ModelHeat> changed;
  executor_.Inspect([&](const LayerExecutor::View& view) {
    for (const auto& [id, model] : view.models) {
      if (!model->heat->changed()) continue;
      changed.push_back(model->heat->Read(model->store->fingerprint()));
      model->heat->NoteSaved();
    }
  });
  return changed;
}

std::set<uint64_t> ExpertCore::KeptHeat() {
  MutexLock lock(models_mu_);
  std::set<uint64_t> kept = operators_;
  for (const auto& [id, entry] : models_) kept.insert(entry.info.fingerprint);
  return kept;
}

Result<ModelHeat> ExpertCore::GetHeat(ModelId id) const {
  ModelHeat heat;
  const bool there = executor_.WithModel(
      id, [&](const LoadedModel& model) { heat = model.heat->Read(model.store->fingerprint()); });
  if (!there) return GoneModel();
  return heat;
}

Status ExpertCore::SetHeat(ModelId id, const ModelHeat& heat) {
  const std::optional<ModelInfo> info = ModelById(id);
  if (!info || info->state != ModelState::kReady) return GoneModel();
  if (heat.fingerprint != info->fingerprint) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadShape,
                 fmt::format("the heat is of the model {:016x}; `{}` is {:016x}", heat.fingerprint,
                             info->name, info->fingerprint)};
  }
  RETURN_IF_ERROR(CheckHeat(heat, *info->geometry));
  bool preheat = false;
  const bool there = executor_.WithModel(id, [&](LoadedModel& model) {
    model.heat->Set(heat);
    preheat = model.preheats;
  });
  if (!there) return GoneModel();
  if (preheat) executor_.StartPreheat(id, HottestFirst(heat, id));
  return Ok{};
}

void ExpertCore::Preheat(ModelId id) {
  ModelHeat heat;
  bool preheat = false;
  executor_.WithModel(id, [&](const LoadedModel& model) {
    heat = model.heat->Read(model.store->fingerprint());
    preheat = model.preheats;
  });
  // Sorted here, since the executor has calls to serve.
  if (preheat) executor_.StartPreheat(id, HottestFirst(heat, id));
}

Status ExpertCore::AwaitPreheat(ModelId id, const ProgressListener& listener) {
  while (true) {
    const PreheatProgress preheat = executor_.PreheatOf(id);
    if (preheat.records_total == 0 && !preheat.under_way) return Ok{};
    if (listener(ProgressOf(preheat)) == GoOn::kNo) {
      return Error{ErrorCode::kCancelled, Reason::kCancelled,
                   "nobody waits for the preheat any more; it goes on"};
    }
    if (!preheat.under_way) return Ok{};
    std::this_thread::sleep_for(kLookAgain);
  }
}

std::optional<std::pair<std::string, ModelProgress>> ExpertCore::PreheatUnderWay() const {
  std::optional<std::pair<std::string, ModelProgress>> first;
  executor_.Inspect([&](const LayerExecutor::View& view) {
    for (const auto& [id, model] : view.models) {
      if (first || !model->preheat.progress.under_way) continue;
      first.emplace(model->name, ProgressOf(model->preheat.progress));
    }
  });
  return first;
}

}  // namespace moetier
