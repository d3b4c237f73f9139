// ResidencyDesk's holds on slots whose memory is given to clients: short, since the driver's work
// is another thread's.

#include "base/check.h"
#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/residency_desk.h"

namespace moetier {

Result<ResidencyDesk::HeldSlot> ResidencyDesk::BeginExport(SessionId session, LeaseId lease) {
  ASSIGN_OR_RETURN(const Open open, Find(session));
  if (executor_.device_lost_) return *executor_.device_lost_;
  const std::optional<Place> place = book_.LeasedPlace(session, lease);
  if (!place || place->pool != kDevicePool) {
    return Error{
        ErrorCode::kNotFound, Reason::kUnknownLease,
        fmt::format("session {} has no lease {} on a device's slot", Raw(session), Raw(lease))};
  }
  const SlotLease held = Hold(open.model, *place);
  ++exporting_[open.model.id];
  return HeldSlot{.session = session,
                  .lease = lease,
                  .place = *place,
                  .size_class = ClassOf(open.model, place->key),
                  .slot = held.slot,
                  .memory = &open.model.vram->memory(),
                  .bytes = held.bytes};
}

Status ResidencyDesk::EndExport(const HeldSlot& held) {
  const auto exporting = exporting_.find(held.place.key.model);
  MOE_CHECK(exporting != exporting_.end(), "no slot of the model is exported");
  if (--exporting->second == 0) exporting_.erase(exporting);
  Unhold({held.place});
  RETURN_IF_ERROR(Find(held.session));
  if (executor_.device_lost_) return *executor_.device_lost_;
  if (book_.LeasedPlace(held.session, held.lease)) return Ok{};
  return Error{ErrorCode::kNotFound, Reason::kUnknownLease,
               fmt::format("the lease {} of session {} ended while its slot was exported",
                           Raw(held.lease), Raw(held.session))};
}

Status ResidencyDesk::CheckUnexported(const LoadedModel& model) const {
  const auto exporting = exporting_.find(model.id);
  if (exporting == exporting_.end()) return Ok{};
  return Error{
      ErrorCode::kFailedPrecondition, Reason::kUnspecified,
      fmt::format("model `{}` is not unloaded: the driver is exporting {} of its slots for "
                  "clients that map them; try again",
                  model.name, exporting->second)};
}

}  // namespace moetier
