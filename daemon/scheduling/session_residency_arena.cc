// SessionResidency's answers to who wants to map a model's slots.

#include <future>
#include <memory>
#include <utility>

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

template <typename T>
Result<T> SessionResidency::AskDesk(const std::function<Result<T>(ResidencyDesk&)>& ask) {
  // Shared: the executor may still be in set_value when the answer is there.
  auto answer = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> answered = answer->get_future();
  const bool sent =
      executor_.AtDesk([answer, &ask](ResidencyDesk& desk) { answer->set_value(ask(desk)); });
  if (!sent) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
  }
  return answered.get();
}

Result<ResidencyCalls::LeasedMemory> SessionResidency::OpenSlot(SessionId session, LeaseId lease,
                                                                uint32_t most_granules) {
  using HeldSlot = ResidencyDesk::HeldSlot;
  ASSIGN_OR_RETURN(const HeldSlot held, AskDesk<HeldSlot>([&](ResidencyDesk& desk) {
                     return desk.BeginExport(session, lease);
                   }));
  Result<ExportedSlot> slot = held.memory->Export(held.size_class, held.slot, most_granules);
  const Status ended = AskDesk<Ok>([&](ResidencyDesk& desk) { return desk.EndExport(held); });
  if (!slot) return std::move(slot).error();
  if (!ended) return ended.error();
  return LeasedMemory{.slot = *std::move(slot), .bytes = held.bytes};
}

}  // namespace moetier
