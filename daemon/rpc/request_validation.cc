#include "daemon/rpc/request_validation.h"

#include <cstddef>
#include <cstdint>

#include "daemon/rpc/hint_validation.h"

namespace moetier {

static_assert(static_cast<uint32_t>(HiddenType::kF32) == v1::DTYPE_F32 &&
              static_cast<uint32_t>(HiddenType::kF16) == v1::DTYPE_F16 &&
              static_cast<uint32_t>(HiddenType::kBF16) == v1::DTYPE_BF16);

Result<LayerCall> ValidateLayerRequest(const v1::LayerRequest& request,
                                       const ModelGeometry& geometry, const RequestLimits& limits,
                                       TimePoint received, FaultPlace& place) {
  const LayerRequestView view{
      .layer = request.layer(),
      .rows = request.rows(),
      .top_k = request.top_k(),
      .hidden_type = static_cast<uint32_t>(request.hidden_type()),
      .hidden = reinterpret_cast<const std::byte*>(request.hidden().data()),
      .hidden_bytes = request.hidden().size(),
      .experts = {request.experts().data(), static_cast<size_t>(request.experts_size())},
      .weights = {request.weights().data(), static_cast<size_t>(request.weights_size())},
      .timeout_us = request.timeout_us(),
      .forced_lane = request.forced_lane()};
  ASSIGN_OR_RETURN(LayerCall call, CheckLayerRequest(view, geometry, limits, received, place));
  if (!request.hints().empty()) {
    ASSIGN_OR_RETURN(call.hints, ValidateHints(request.hints(), geometry, place));
  }
  return call;
}

}  // namespace moetier
