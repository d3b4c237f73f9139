// SessionResidency's answer to who wants to map a model's slots.

#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/session_residency.h"

namespace moetier {
namespace {

Error NotMappable(PoolId pool, bool has_device) {
  if (has_device && pool == kDevicePool) {
    return {ErrorCode::kUnimplemented, Reason::kNotYet,
            fmt::format("pool {} is a device's, whose memory cannot be mapped in this version; "
                        "pool {} can",
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

}  // namespace moetier
