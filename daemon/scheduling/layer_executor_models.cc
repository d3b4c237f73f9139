// LayerExecutor's models: how they come, what they would lease, and how they go.

#include <algorithm>
#include <future>
#include <utility>

#include "base/check.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {

void LayerExecutor::AddModel(std::unique_ptr<LoadedModel> model) {
  RunOnThread([&] {
    const ModelId id = model->id;
    NoteLeasable(*model);
    const bool inserted = models_.emplace(id, std::move(model)).second;
    MOE_CHECK(inserted, "model {} is there already", Raw(id));
  });
}

Status LayerExecutor::CheckUnleased(ModelId id) {
  Status unleased = Ok{};
  WithModel(id, [&](const LoadedModel& model) { unleased = desk_.CheckUnleased(model); });
  return unleased;
}

Result<std::unique_ptr<LoadedModel>> LayerExecutor::RemoveModel(ModelId model) {
  ASSIGN_OR_RETURN(std::future<std::unique_ptr<LoadedModel>> removed, AskForRemoval(model));
  return removed.get();
}

Result<std::future<std::unique_ptr<LoadedModel>>> LayerExecutor::AskForRemoval(ModelId model) {
  auto removed = std::make_shared<std::promise<std::unique_ptr<LoadedModel>>>();
  std::future<std::unique_ptr<LoadedModel>> done = removed->get_future();
  Status refused = Ok{};
  RunOnThread([&] {
    const auto found = models_.find(model);
    if (found == models_.end()) return removed->set_value(nullptr);
    refused = desk_.CheckUnleased(*found->second);
    if (!refused) return;
    desk_.EndCalls(model, {ErrorCode::kUnavailable, Reason::kDraining, "the model is unloaded"});
    std::vector<ExpertKey> pinned;
    for (const auto& [key, wave] : pins_) {
      if (key.model == model) pinned.push_back(key);
    }
    for (const ExpertKey& key : pinned) ReleasePin(key);
    found->second->removed = removed;
  });
  if (!refused) return std::move(refused).error();
  return done;
}

bool LayerExecutor::WithModel(ModelId id, const std::function<void(LoadedModel&)>& visit) {
  bool visited = false;
  RunOnThread([&] {
    const auto found = models_.find(id);
    if (found == models_.end() || found->second->removed) return;
    visit(*found->second);
    visited = true;
  });
  return visited;
}

Bytes LayerExecutor::LeasableBytes(ModelId model) const {
  MutexLock lock(leasable_mu_);
  const auto found = leasable_.find(model);
  return found == leasable_.end() ? Bytes() : found->second;
}

void LayerExecutor::NoteLeasable(const LoadedModel& model) {
  MutexLock lock(leasable_mu_);
  leasable_[model.id] = model.LeasableBytes();
}

void LayerExecutor::RemoveIdleModels() {
  for (const ExpertKey& key : std::exchange(failed_pins_, {})) ReleasePin(key);
  for (auto it = models_.begin(); it != models_.end();) {
    LoadedModel& model = *it->second;
    const bool idle =
        model.AtRest() &&
        std::none_of(queue_.begin(), queue_.end(),
                     [&](const PendingCall& p) { return p.call.model == model.id; }) &&
        std::none_of(active_.begin(), active_.end(),
                     [&](const auto& entry) { return &entry.second.model == &model; });
    if (model.removed && idle) {
      const auto removed = model.removed;
      prefetcher_.ForgetModel(model.id);
      {
        MutexLock lock(leasable_mu_);
        leasable_.erase(model.id);
      }
      removed->set_value(std::move(it->second));
      it = models_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace moetier
