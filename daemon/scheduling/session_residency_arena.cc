// SessionResidency's answers to who wants to map a model's slots.

#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/session_residency.h"

namespace moetier {
namespace {

Error NotMappable(PoolId pool, bool has_device) {
  if (has_device && pool == kDevicePool) {
    return {ErrorCode::kUnimplemented, Reason::kNotYet,
            fmt::format("pool {} is a device's, whose memory is mapped slot by slot, under a "
                        "lease; pool {} can be mapped whole",
                        Raw(pool), Raw(kRamPool))};
  }
  return {ErrorCode::kInvalidArgument, Reason::kBadPool,
          fmt::format("there is no pool {}; pool {} can be mapped", Raw(pool), Raw(kRamPool))};
}

}  // namespace

Result<ResidencyCalls::SharedArena> SessionResidency::OpenArena(ModelId id, PoolId pool) {
  if (pool != kRamPool) {
    bool has_device = false;
    executor_.Inspect(
        [&](const LayerExecutor::View& view) { has_device = view.device != nullptr; });
    return NotMappable(pool, has_device);
  }
  Result<SharedArena> shared =
      Error{ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded any more"};
  executor_.WithModel(id, [&](const LoadedModel& model) {
    Result<UniqueFd> file = model.arena->OpenReadOnly();
    if (file) {
      shared = SharedArena{.fd = *std::move(file), .bytes = model.arena->size().count()};
    } else {
      shared = std::move(file).error();
    }
  });
  return shared;
}

Result<ResidencyCalls::LeasedMemory> SessionResidency::OpenSlot(SessionId session, LeaseId lease,
                                                                uint32_t most_granules) {
  Result<LeasedMemory> opened =
      Error{ErrorCode::kNotFound, Reason::kUnspecified,
            fmt::format("session {} has no lease {} on a device's slot", Raw(session), Raw(lease))};
  // On the executor's thread, where the lease cannot end meanwhile.
  executor_.Inspect([&](const LayerExecutor::View& view) {
    const std::optional<Place> place = view.desk.LeasedPlace(session, lease);
    if (!place || place->pool != kDevicePool) return;
    const LoadedModel& model = *view.models.at(place->key.model);
    const LayerGeometry& layer = *model.geometry->Find(place->key.layer);
    const ResidencyLedger& ledger = model.vram->ledger(layer.size_class);
    Result<ExportedSlot> slot =
        model.vram->memory().Export(layer.size_class, *ledger.SlotOf(place->key), most_granules);
    if (slot) {
      opened = LeasedMemory{.slot = *std::move(slot), .bytes = layer.record.bytes};
    } else {
      opened = std::move(slot).error();
    }
  });
  return opened;
}

}  // namespace moetier
