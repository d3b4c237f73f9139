// LayerExecutor's pins: experts that an operator keeps resident.

#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {

Status LayerExecutor::Pin(const std::vector<ExpertKey>& keys) {
  std::vector<std::future<Status>> landed;
  Status refused = Ok{};
  RunOnThread([&] {
    for (const ExpertKey& key : keys) {
      if (pins_.contains(key)) continue;
      refused = BeginPin(key, landed);
      if (!refused.has_value()) return;
    }
  });
  for (std::future<Status>& pin : landed) {
    if (Status status = pin.get(); !status.has_value()) refused = std::move(status);
  }
  return refused;
}

Status LayerExecutor::BeginPin(const ExpertKey& key, std::vector<std::future<Status>>& landed) {
  if (stopping_.load()) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
  }
  const auto found = models_.find(key.model);
  if (found == models_.end() || found->second->removed) {
    return Error{ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded"};
  }
  LoadedModel& model = *found->second;
  const LayerGeometry* layer = model.geometry->Find(key.layer);
  if (layer == nullptr || Raw(key.expert) >= layer->experts) {
    return Error{ErrorCode::kInvalidArgument, Reason::kUnknownLayer,
                 fmt::format("{} is not an expert of the model", ToString(key))};
  }
  const size_t size_class = Raw(layer->size_class);
  const uint32_t slots = model.ledgers[size_class]->slot_count();
  const uint32_t kept = 2 * model.geometry->top_k;  // two calls' reservations
  if (model.pinned[size_class] + kept >= slots) {
    return Error{ErrorCode::kExhausted, Reason::kNoRoom,
                 fmt::format("{} of {} slots of its size class are pinned and {} are kept for "
                             "calls; raise the model's ram budget or unpin others",
                             model.pinned[size_class], slots, kept)};
  }
  ++model.pinned[size_class];
  const WaveId id{next_wave_++};
  auto pinned = std::make_shared<std::promise<Status>>();
  landed.push_back(pinned->get_future());
  pins_.emplace(key, id);
  Wave& wave = waves_[id];
  wave = {.model = &model,
          .size_class = layer->size_class,
          .batch = 0,
          .first_expert = 0,
          .unfinished = 1,
          .keys = {key},
          .heat = {},
          .pinned = std::move(pinned)};
  Step(model, wave.size_class, ReserveWave{.wave = id, .keys = wave.keys, .tenure = Tenure::kHeld});
  return Ok{};
}

void LayerExecutor::Unpin(const std::vector<ExpertKey>& keys) {
  RunOnThread([&] {
    for (const ExpertKey& key : keys) ReleasePin(key);
  });
}

void LayerExecutor::ReleasePin(const ExpertKey& key) {
  const auto pin = pins_.find(key);
  if (pin == pins_.end()) return;
  Wave& wave = waves_.at(pin->second);
  if (wave.unfinished > 0) {
    wave.pinned->set_value(
        Error{ErrorCode::kCancelled, Reason::kCancelled, "unpinned before it had landed"});
  }
  ReleaseWaveOf(pin->second);
  pins_.erase(pin);
}

}  // namespace moetier
