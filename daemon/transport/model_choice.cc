#include "daemon/transport/model_choice.h"

#include <utility>
#include <vector>

namespace moetier {

Result<ModelInfo> ChooseModel(DaemonCore& core, const std::string& name) {
  std::optional<ModelInfo> model;
  if (name.empty()) {
    std::vector<ModelInfo> models = core.ListModels();
    if (models.size() == 1 && BroughtByClient(models.front())) {
      return Error{ErrorCode::kInvalidArgument, Reason::kUnknownModel,
                   fmt::format("model is empty, and the only model, \"{}\", was loaded for the "
                               "client that brought its files; name it to use it",
                               models.front().name)};
    }
    std::erase_if(models, BroughtByClient);
    if (models.size() != 1) {
      return Error{ErrorCode::kInvalidArgument, Reason::kUnknownModel,
                   fmt::format("model is empty and {} models are loaded; name one", models.size())};
    }
    model = std::move(models.front());
  } else {
    model = core.FindModel(name);
  }
  if (!model) return NotLoaded(name);
  if (std::optional<ModelInfo> held = core.HoldModel(model->id)) return *std::move(held);
  // Found ready and not held: it is being unloaded since.
  const bool loading = model->state == ModelState::kLoading;
  return Error{ErrorCode::kUnavailable, loading ? Reason::kLoading : Reason::kDraining,
               fmt::format("model \"{}\" is being {}", model->name,
                           loading ? "loaded; try again later" : "unloaded")};
}

std::optional<ModelInfo> FindServing(DaemonCore& core, uint64_t fingerprint) {
  for (const ModelInfo& model : core.ListModels()) {
    if (BroughtByClient(model) || model.fingerprint != fingerprint) continue;
    if (std::optional<ModelInfo> held = core.HoldModel(model.id)) return held;
  }
  return std::nullopt;
}

}  // namespace moetier
