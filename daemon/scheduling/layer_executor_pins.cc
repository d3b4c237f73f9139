// LayerExecutor's pins: experts that an operator keeps resident.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {

Result<uint32_t> LayerExecutor::Pin(const std::vector<ExpertKey>& keys) {
  return AwaitPins(AskForPins(keys));
}

LayerExecutor::AskedPins LayerExecutor::AskForPins(const std::vector<ExpertKey>& keys) {
  AskedPins asked;
  RunOnThread([&] {
    std::set<ExpertKey> wanted(keys.begin(), keys.end());
    std::erase_if(wanted, [&](const ExpertKey& key) { return pins_.contains(key); });
    asked.taken = CheckPins(wanted);
    if (!asked.taken.has_value()) return;
    asked.keys.assign(wanted.begin(), wanted.end());
    for (const ExpertKey& key : asked.keys) asked.landed.push_back(BeginPin(key));
  });
  return asked;
}

Result<uint32_t> LayerExecutor::AwaitPins(AskedPins asked) {
  for (std::future<Status>& pin : asked.landed) {
    if (Status status = pin.get(); !status.has_value()) asked.taken = std::move(status);
  }
  if (asked.taken.has_value()) return static_cast<uint32_t>(asked.keys.size());
  Unpin(asked.keys);
  return std::move(asked.taken).error();
}

Status LayerExecutor::CheckPins(const std::set<ExpertKey>& keys) const {
  if (stopping_.load()) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
  }
  std::map<std::pair<ModelId, size_t>, uint32_t> counts;  // by size class
  for (const ExpertKey& key : keys) {
    const auto found = models_.find(key.model);
    if (found == models_.end() || found->second->removed) {
      return Error{ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded"};
    }
    const LayerGeometry* layer = found->second->geometry->Find(key.layer);
    if (layer == nullptr || Raw(key.expert) >= layer->experts) {
      return Error{ErrorCode::kInvalidArgument, Reason::kUnknownLayer,
                   fmt::format("{} is not an expert of the model", ToString(key))};
    }
    ++counts[{key.model, Raw(layer->size_class)}];
  }
  for (const auto& [place, wanted] : counts) {
    const SizeClass size_class{static_cast<uint8_t>(place.second)};
    RETURN_IF_ERROR(CheckPinRoom(*models_.at(place.first), size_class, wanted));
  }
  return Ok{};
}

Status LayerExecutor::CheckPinRoom(const LoadedModel& model, SizeClass size_class,
                                   uint32_t wanted) {
  const uint32_t fit = model.RamRoom(size_class);
  if (wanted <= fit) return Ok{};
  const size_t index = Raw(size_class);
  return Error{
      ErrorCode::kExhausted, Reason::kNoRoom,
      fmt::format("nothing was pinned: {} more {} wanted, {} would fit, since {} of {} slots of "
                  "the size class are pinned, {} are leased to sessions and {} are kept for calls; "
                  "name at most {}, raise the model's ram budget or unpin others",
                  wanted, wanted == 1 ? "is" : "are", fit, model.pinned[index],
                  model.ledgers[index]->slot_count(), model.kept_in_ram[index].kept,
                  model.SlotsForCalls(), fit)};
}

std::future<Status> LayerExecutor::BeginPin(const ExpertKey& key) {
  LoadedModel& model = *models_.at(key.model);
  const SizeClass size_class = model.geometry->Find(key.layer)->size_class;
  ++model.pinned[Raw(size_class)];
  const WaveId id{next_wave_++};
  auto pinned = std::make_shared<std::promise<Status>>();
  std::future<Status> landed = pinned->get_future();
  pins_.emplace(key, id);
  Wave& wave = waves_[id];
  wave = {.model = &model,
          .size_class = size_class,
          .batch = 0,
          .first_ask = 0,
          .unfinished = 1,
          .keys = {key},
          .heat = {},
          .pinned = std::move(pinned)};
  Step(model, wave.size_class, ReserveWave{.wave = id, .keys = wave.keys, .tenure = Tenure::kHeld});
  return landed;
}

uint32_t LayerExecutor::Unpin(const std::vector<ExpertKey>& keys) {
  uint32_t released = 0;
  RunOnThread([&] {
    for (const ExpertKey& key : keys) {
      if (ReleasePin(key)) ++released;
    }
  });
  return released;
}

bool LayerExecutor::ReleasePin(const ExpertKey& key) {
  const auto pin = pins_.find(key);
  if (pin == pins_.end()) return false;
  Wave& wave = waves_.at(pin->second);
  if (wave.unfinished > 0) {
    wave.pinned->set_value(
        Error{ErrorCode::kCancelled, Reason::kCancelled, "unpinned before it had landed"});
  }
  ReleaseWaveOf(pin->second);
  pins_.erase(pin);
  std::erase(failed_pins_, key);  // or a pin that is asked for next would be released in its place
  return true;
}

}  // namespace moetier
